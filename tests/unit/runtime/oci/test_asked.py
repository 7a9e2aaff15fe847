"""From the record of a container to what the front carries for it."""

from __future__ import annotations

from dataclasses import replace

from crishim.checkpoint.codec import decode, encode
from crishim.checkpoint.record import ContainerRecord, Phase, SandboxRecord
from crishim.model import (
    Capability,
    ContainerConfig,
    HugepageLimit,
    ImageSpec,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
    Mount,
    PodSandboxConfig,
)
from crishim.runtime.oci.asked import make_wish
from crishim.runtime.oci.wish import Wish


def record(**config: object) -> ContainerRecord:
    return ContainerRecord(id="c", config=ContainerConfig(**config), image_ref="i", created_at=1)  # type: ignore[arg-type]


def linux(resources: LinuxContainerResources | None = None, **capabilities: tuple[str, ...]) -> LinuxContainerConfig:
    context = LinuxContainerSecurityContext(capabilities=Capability(**capabilities))
    return LinuxContainerConfig(resources=resources, security_context=context)


def test_what_the_engine_can_say_is_no_wish() -> None:
    mounts = (Mount(container_path="/x", host_path="/", readonly=True),)
    zero = LinuxContainerResources(cpu_shares=5, hugepage_limits=(HugepageLimit(page_size="2MB"),))
    assert make_wish(record()) is None
    assert make_wish(record(mounts=mounts, linux=linux(zero, add_capabilities=("KILL",)))) is None


def test_ambient_capabilities() -> None:
    asked = linux(add_ambient_capabilities=("kill", "CAP_CHOWN", "KILL"), drop_capabilities=("CHOWN",))
    assert make_wish(record(linux=asked)) == Wish(ambient=("CAP_KILL",))
    everything = linux(add_ambient_capabilities=("ALL",), drop_capabilities=("CHOWN",))
    assert make_wish(record(linux=everything)) == Wish(ambient=("ALL",))


def test_mounts() -> None:
    mounts = (
        Mount(container_path="/a/../b//", host_path="/", mount_options=("nosuid", "noexec")),
        Mount(container_path="/c", host_path="/", readonly=True, recursive_read_only=True),
        Mount(container_path="/d", image=ImageSpec(image="x"), recursive_read_only=True),
        Mount(container_path="/e", host_path="/"),
    )
    assert make_wish(record(mounts=mounts)) == Wish(mount_options={"/b": ("noexec", "nosuid"), "/c": ("rro",)})


def test_limits_at_creation_and_since() -> None:
    small, large = HugepageLimit(page_size="2MB", limit=2), HugepageLimit(page_size="2MB", limit=4)
    other = HugepageLimit(page_size="1GB")
    asked = LinuxContainerResources(unified={"a": "1", "b": "2"}, hugepage_limits=(small, other))
    created = record(linux=LinuxContainerConfig(resources=asked))
    assert make_wish(created) == Wish(unified={"a": "1", "b": "2"}, hugepage_limits=(small,))
    since = replace(created, resources=LinuxContainerResources(unified={"b": "3"}, hugepage_limits=(large, other)))
    assert make_wish(since) == Wish(unified={"a": "1", "b": "3"}, hugepage_limits=(large,))


def test_a_restart_wishes_the_same() -> None:
    """The record that the store gives back leads to the same wish."""
    mounts = (Mount(container_path="/c", host_path="/", readonly=True, recursive_read_only=True),)
    asked = record(
        mounts=mounts, linux=linux(LinuxContainerResources(unified={"a": "1"}), add_ambient_capabilities=("KILL",))
    )
    sandbox = SandboxRecord(id="s", phase=Phase.READY, config=PodSandboxConfig(), created_at=1, containers={"c": asked})
    again = decode(encode(sandbox), "s").containers["c"]
    assert make_wish(asked) is not None
    assert make_wish(again) == make_wish(asked)
