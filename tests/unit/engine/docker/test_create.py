from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from crishim.engine.docker.create import NO_MEMORY_LIMIT, container_body, update_body
from crishim.engine.values import ContainerSpec, EngineDevice, EngineFacts, EngineMount, EngineResources, LogSpool
from crishim.errors import ImageVolumeMountFailed, RROUnsupported, UnsupportedField

Facts = Callable[..., EngineFacts]
PLAIN = ContainerSpec(image="busybox", labels={})


def host(facts: EngineFacts, **fields: Any) -> dict[str, Any]:
    """The HostConfig of a plain container with some fields set."""
    config: dict[str, Any] = container_body(dataclasses.replace(PLAIN, **fields), facts)["HostConfig"]
    return config


def test_nothing_is_left_to_the_daemons_defaults(facts: Facts) -> None:
    body = container_body(PLAIN, facts())
    config = body["HostConfig"]
    assert config["Init"] is False
    assert config["Runtime"] == "runc"
    assert config["RestartPolicy"]["Name"] == "no"
    assert config["SecurityOpt"] == ["no-new-privileges=false"]
    assert (config["IpcMode"], config["CgroupnsMode"], config["NetworkMode"]) == ("private", "private", "none")
    assert config["ShmSize"] == 64 << 20
    assert body["Healthcheck"] == {"Test": ["NONE"]}
    assert config["LogConfig"]["Type"] == "json-file"
    assert config["LogConfig"]["Config"] == {
        "max-size": str(16 << 20),
        "max-file": "4",
        "mode": "blocking",
        "compress": "false",
        "labels": "",
        "labels-regex": "",
        "env": "",
        "env-regex": "",
        "tag": "",
    }


def test_every_field_of_the_spec_reaches_the_engine(facts: Facts) -> None:
    """A field that is added to ContainerSpec and forgotten here would be dropped without a word."""
    other: dict[str, Any] = {
        "image": "other",
        "labels": {"a": "b"},
        "entrypoint": ("/e",),
        "command": ("c",),
        "env": (("K", "v"),),
        "working_dir": "/w",
        "user": "1",
        "hostname": "h",
        "domainname": "d",
        "tty": True,
        "stdin": True,
        "stdin_once": True,
        "stop_signal": "SIGINT",
        "runtime": "kata",
        "cgroup_parent": "/p",
        "network_mode": "host",
        "ipc_mode": "host",
        "pid_mode": "host",
        "uts_mode": "host",
        "cgroupns_mode": "host",
        "privileged": True,
        "readonly_rootfs": True,
        "no_new_privileges": True,
        "cap_add": ("ALL",),
        "cap_drop": ("KILL",),
        "seccomp": "unconfined",
        "apparmor": "unconfined",
        "selinux": ("disable",),
        "masked_paths": (),
        "readonly_paths": (),
        "groups": (5,),
        "sysctls": {"net.core.somaxconn": "9"},
        "shm_size": 1 << 20,
        "oom_score_adj": 3,
        "resources": EngineResources(memory=1 << 30),
        "mounts": (EngineMount(source="/a", target="/b"),),
        "devices": (EngineDevice(host_path="/dev/null", container_path="/dev/zero"),),
        "cdi_devices": ("v.com/c=x",),
        "log_spool": LogSpool(max_files=2),
    }
    assert set(other) == {field.name for field in dataclasses.fields(ContainerSpec)}
    engine = facts((1, 50), cdi=True)
    plain = container_body(PLAIN, engine)
    for name, value in other.items():
        assert container_body(dataclasses.replace(PLAIN, **{name: value}), engine) != plain, name


def test_an_empty_command_line_is_the_images(facts: Facts) -> None:
    body = container_body(PLAIN, facts())
    assert (body["Entrypoint"], body["Cmd"]) == (None, None)


def test_masked_paths_default_and_none_differ(facts: Facts) -> None:
    assert host(facts())["MaskedPaths"] is None
    assert host(facts(), masked_paths=())["MaskedPaths"] == []
    assert host(facts(), readonly_paths=("/proc/sys",))["ReadonlyPaths"] == ["/proc/sys"]


def test_security_options(facts: Facts) -> None:
    fields = {"seccomp": '{"a": 1}', "apparmor": "prof", "selinux": ("level:s0", "type:t"), "no_new_privileges": True}
    assert host(facts(), **fields)["SecurityOpt"] == [
        "no-new-privileges=true",
        'seccomp={"a": 1}',
        "apparmor=prof",
        "label=level:s0",
        "label=type:t",
    ]
    assert host(facts(), **fields, privileged=True)["SecurityOpt"] == ["no-new-privileges=true"]


@pytest.mark.parametrize(
    ("api", "readonly", "recursive", "options"),
    [
        ((1, 41), False, False, {}),
        ((1, 41), True, False, {}),
        ((1, 44), False, False, {}),
        ((1, 44), True, False, {"ReadOnlyNonRecursive": True}),
        ((1, 44), True, True, {"ReadOnlyForceRecursive": True}),
    ],
)
def test_readonly_binds(
    facts: Facts, api: tuple[int, int], readonly: bool, recursive: bool, options: dict[str, bool]
) -> None:
    mount = EngineMount(source="/a", target="/b", readonly=readonly, recursive_readonly=recursive)
    assert host(facts(api), mounts=(mount,))["Mounts"] == [
        {
            "Type": "bind",
            "Source": "/a",
            "Target": "/b",
            "ReadOnly": readonly,
            "BindOptions": {"Propagation": "rprivate", **options},
        }
    ]


def test_recursively_readonly_needs_an_engine_that_can(facts: Facts) -> None:
    mount = EngineMount(source="/a", target="/b", readonly=True, recursive_readonly=True)
    with pytest.raises(RROUnsupported, match=r"1\.44"):
        host(facts((1, 43)), mounts=(mount,))


def test_image_mounts(facts: Facts) -> None:
    mount = EngineMount(source="img", target="/b", readonly=True, image=True, image_subpath="sub/dir")
    assert host(facts((1, 48)), mounts=(mount,))["Mounts"] == [
        {"Type": "image", "Source": "img", "Target": "/b", "ReadOnly": True, "ImageOptions": {"Subpath": "sub/dir"}}
    ]
    with pytest.raises(ImageVolumeMountFailed, match=r"1\.48"):
        host(facts((1, 47)), mounts=(mount,))


def test_cdi_devices(facts: Facts) -> None:
    names = ("vendor.com/class=one", "vendor.com/class=two")
    requests = host(facts((1, 44), cdi=True), cdi_devices=names)["DeviceRequests"]
    assert requests == [{"Driver": "cdi", "DeviceIDs": list(names)}]
    for engine in (facts((1, 43), cdi=True), facts((1, 50))):
        with pytest.raises(UnsupportedField, match="CDI"):
            host(engine, cdi_devices=names)


def test_resources_of_a_new_container(facts: Facts) -> None:
    assert not {"Memory", "CpuShares", "CpuQuota", "PidsLimit", "CpusetCpus"} & set(host(facts()))
    zero = EngineResources(cpu_shares=0, cpu_quota=0, memory=0, memory_swap=0, pids_limit=0, cpuset_cpus="")
    config = host(facts(), resources=zero)
    assert (config["Memory"], config["MemorySwap"], config["CpuQuota"], config["PidsLimit"]) == (0, -1, 0, 0)
    assert config["CpuShares"] == 1024
    assert "CpusetCpus" not in config


def test_no_limit_of_processes_is_not_systemds_default(facts: Facts) -> None:
    systemd = dataclasses.replace(facts(), cgroup_driver="systemd")
    assert host(systemd, resources=EngineResources(pids_limit=0))["PidsLimit"] == 1 << 22
    assert host(systemd, resources=EngineResources(pids_limit=50))["PidsLimit"] == 50
    assert "PidsLimit" not in host(systemd)


def test_update_sends_what_is_said() -> None:
    assert update_body(EngineResources(cpu_quota=5000, memory=1 << 30)) == {"CpuQuota": 5000, "Memory": 1 << 30}
    assert update_body(EngineResources(cpu_quota=0, pids_limit=0, cpu_shares=0)) == {
        "CpuQuota": -1,
        "PidsLimit": -1,
        "CpuShares": 1024,
    }
    freed = update_body(EngineResources(memory=0, memory_swap=-1))
    assert NO_MEMORY_LIMIT <= freed["Memory"] < freed["MemorySwap"] < 1 << 63


def test_an_image_that_is_mounted_more_than_once_is_spelled_otherwise(facts: Callable[..., EngineFacts]) -> None:
    """The engine would take the second for the first."""
    image, other = "sha256:" + "0123456789abcdef" * 4, "sha256:" + "f" * 64
    sources = (image, other, image, image)
    mounts = tuple(EngineMount(source=s, target=f"/{i}", image=True) for i, s in enumerate(sources))
    told = [mount["Source"] for mount in host(facts((1, 48)), mounts=mounts)["Mounts"]]
    assert told == [image, other, image.removeprefix("sha256:"), image.removeprefix("sha256:")[:63]]
    many = tuple(EngineMount(source=image, target=f"/{i}", image=True) for i in range(60))
    with pytest.raises(ImageVolumeMountFailed, match="48 times"):
        host(facts((1, 48)), mounts=many)
