from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crishim.engine.docker.create import NO_MEMORY_LIMIT
from crishim.engine.docker.parse import container_from, image_from, nanoseconds, resources_from
from crishim.engine.values import ContainerPhase, EngineMount

ZERO = "0001-01-01T00:00:00Z"


def inspect(state: dict[str, Any] | None = None, host: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    """As little as an engine says of a container."""
    return {
        "Id": "1" * 64,
        "Name": "/name",
        "Image": "sha256:" + "2" * 64,
        "Created": "2024-01-02T03:04:05.6Z",
        "State": {"Status": "created", "StartedAt": ZERO, "FinishedAt": ZERO} | (state or {}),
        "Config": {"Image": "busybox"},
        "HostConfig": host or {},
    } | top


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ZERO, 0),
        ("", 0),
        (None, 0),
        ("nonsense", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T02:00:00+01:30", 1_800_000_000_000),
        ("1970-01-01T00:00:00-00:30", 1_800_000_000_000),
        ("2024-01-02T03:04:05.123456789Z", 1_704_164_645_123_456_789),
    ],
)
def test_times(text: str | None, expected: int) -> None:
    assert nanoseconds(text) == expected


@given(st.datetimes(min_value=datetime(1970, 1, 1)), st.integers(0, 999_999_999))
def test_times_keep_every_nanosecond(moment: datetime, nanos: int) -> None:
    seconds = nanoseconds(moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert nanoseconds(moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{nanos:09d}Z") == seconds + nanos


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ("created", ContainerPhase.CREATED),
        ("running", ContainerPhase.RUNNING),
        ("paused", ContainerPhase.RUNNING),
        ("restarting", ContainerPhase.EXITED),
        ("exited", ContainerPhase.EXITED),
        ("dead", ContainerPhase.EXITED),
        ("removing", ContainerPhase.REMOVING),
    ],
)
def test_phases(status: str, phase: ContainerPhase) -> None:
    assert container_from(inspect({"Status": status})).phase is phase


def test_the_least_an_engine_says_is_enough() -> None:
    shown = container_from(inspect())
    assert (shown.name, shown.labels, shown.mounts, shown.env) == ("name", {}, (), ())
    assert (shown.started_at, shown.finished_at, shown.merged_dir) == (0, 0, "")


def test_layers_of_the_image() -> None:
    """Without the container's own, and without the one that the engine puts between; none where it is not sure."""
    lower = "/d/own-init/diff:/d/top/diff:/d/base/diff"
    data = {"UpperDir": "/d/own/diff", "LowerDir": lower, "MergedDir": "/d/own/merged"}

    def shown(**driver: Any) -> tuple[str, ...]:
        return container_from(inspect() | {"GraphDriver": driver}).image_layers

    assert shown(Name="overlay2", Data=data) == ("/d/top/diff", "/d/base/diff")
    assert shown(Name="overlay2", Data=data | {"LowerDir": "/d/own-init/diff"}) == ()
    assert shown(Name="overlay2", Data=data | {"LowerDir": "/d/top/diff:/d/base/diff"}) == ()
    assert shown(Name="zfs", Data=data) == shown(Name="vfs", Data=None) == shown() == ()


def test_log_path_is_known_before_the_first_start() -> None:
    spool = {"LogConfig": {"Type": "json-file"}}
    path = "/data/containers/{0}/{0}-json.log".format("1" * 64)
    assert container_from(inspect(host=spool), "/data").log_path == path
    assert container_from(inspect(host=spool, LogPath="/elsewhere.log"), "/data").log_path == "/elsewhere.log"
    assert container_from(inspect(host={"LogConfig": {"Type": "none"}}), "/data").log_path == ""


def test_end_is_never_before_the_start() -> None:
    times = {"StartedAt": "2024-01-02T03:04:06.2Z", "FinishedAt": "2024-01-02T03:04:06.1Z"}
    ended = container_from(inspect({"Status": "exited"} | times))
    assert ended.finished_at == ended.started_at
    assert container_from(inspect({"Status": "running"} | times)).finished_at == 0


def test_typed_mounts_come_first_and_binds_are_found() -> None:
    host = {
        "Mounts": [
            {
                "Type": "bind",
                "Source": "/b",
                "Target": "/z",
                "ReadOnly": True,
                "BindOptions": {"Propagation": "rslave"},
            },
            {"Type": "image", "Source": "img", "Target": "/i", "ImageOptions": {"Subpath": "s"}},
            {"Type": "tmpfs", "Target": "/t"},
        ]
    }
    points = [
        {"Type": "bind", "Source": "/real/b", "Destination": "/z", "RW": False, "Propagation": "rslave"},
        {"Type": "bind", "Source": "/a", "Destination": "/a", "RW": False, "Propagation": "rprivate"},
        {"Type": "volume", "Source": "/v", "Destination": "/v", "RW": True},
    ]
    assert container_from(inspect(host=host, Mounts=points)).mounts == (
        EngineMount(source="/b", target="/z", readonly=True, propagation="rslave"),
        EngineMount(source="img", target="/i", readonly=True, image=True, image_subpath="s"),
        EngineMount(source="/a", target="/a", readonly=True),
    )


def test_limits_that_are_none() -> None:
    shown = resources_from(
        {"Memory": NO_MEMORY_LIMIT, "MemorySwap": 2 * NO_MEMORY_LIMIT, "CpuQuota": -1, "PidsLimit": None}
    )
    assert (shown.memory, shown.memory_swap, shown.cpu_quota, shown.pids_limit) == (0, -1, 0, 0)


def test_image_of_a_new_engine_that_omits_what_is_empty() -> None:
    image = image_from({"Id": "sha256:1", "Size": 5})
    assert (image.tags, image.digests, image.user, image.labels, image.created_at) == ((), (), "", {}, 0)


def test_placeholders_are_no_names() -> None:
    data = {"Id": "sha256:1", "RepoTags": ["<none>:<none>", "a:1", "a@sha256:2"], "RepoDigests": ["<none>@<none>"]}
    image = image_from(data)
    assert (image.tags, image.digests) == (("a:1",), ())
