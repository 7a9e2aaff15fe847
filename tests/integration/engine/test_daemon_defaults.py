"""What the engine's daemon.json says must not reach a pod."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from crishim.engine.docker import DockerEngine
from crishim.engine.values import ContainerSpec, EngineMount
from crishim.errors import EngineError, Kind
from tests.env import linux
from tests.env.images import BUSYBOX_REF, busybox

pytestmark = pytest.mark.engine

HOSTILE: dict[str, Any] = {
    "init": True,
    "no-new-privileges": True,
    "default-ipc-mode": "shareable",
    "default-shm-size": "1m",
    "default-cgroupns-mode": "private",
    "log-driver": "json-file",
    "log-opts": {
        "mode": "non-blocking",
        "tag": "{{.Name}}",
        "labels": "app",
        "env": "A",
        "max-size": "1k",
        "compress": "true",
    },
}
REPORT = """
tr '\\0' ' ' </proc/1/cmdline; echo
grep NoNewPrivs /proc/self/status
grep ' /dev/shm ' /proc/mounts
readlink /proc/self/ns/cgroup
"""


async def test_they_stay_outside(
    own_engine: Any, connected: Callable[..., Awaitable[DockerEngine]], tmp_path: Path
) -> None:
    engine = await own_engine(config=HOSTILE)
    unhealthy = busybox().with_config(Healthcheck={"Test": ["CMD", "false"], "Interval": 1_000_000_000})
    await asyncio.to_thread(unhealthy.load, engine.api, "crishim.test/unhealthy:1")
    adapter = await connected(engine.url)
    spec = ContainerSpec(
        image="crishim.test/unhealthy:1",
        labels={"app": "x"},
        env=(("A", "1"),),
        entrypoint=("sh", "-c", REPORT),
        cgroupns_mode="host",
    )
    container_id = await adapter.create("guarded", spec)
    await adapter.start(container_id)
    await asyncio.wait_for(adapter.wait(container_id), 30)
    shown = await adapter.inspect(container_id)
    assert shown.exit_code == 0
    assert shown.ipc_mode == "private"
    lines = [json.loads(line) for line in Path(shown.log_path).read_text().splitlines()]
    assert all(set(line) == {"log", "stream", "time"} for line in lines), "the engine's log-opts added something"
    report = "".join(line["log"] for line in lines)
    assert report.startswith("sh -c"), "an init of the engine's is PID 1"
    assert "NoNewPrivs:\t0" in report
    assert "size=65536k" in report
    assert str(Path("/proc/self/ns/cgroup").readlink()) in report
    raw = await asyncio.to_thread(engine.api.call, "GET", f"/containers/{container_id}/json")
    assert raw["Config"]["Healthcheck"]["Test"] == ["NONE"]
    log = raw["HostConfig"]["LogConfig"]
    assert (log["Type"], log["Config"]["mode"], log["Config"]["compress"]) == ("json-file", "blocking", "false")
    assert log["Config"]["max-size"] == str(16 << 20)
    assert raw["HostConfig"]["RestartPolicy"]["Name"] == "no"


async def test_missing_host_path_is_refused_and_not_made(docker: DockerEngine, tmp_path: Path) -> None:
    mount = EngineMount(source=str(tmp_path / "not-there"), target="/data")
    spec = ContainerSpec(image=BUSYBOX_REF, labels={}, entrypoint=("true",), mounts=(mount,))
    with pytest.raises(EngineError, match="not-there") as caught:
        await docker.create("homeless", spec)
    assert caught.value.kind is Kind.INVALID_ARGUMENT
    assert not (tmp_path / "not-there").exists()


async def test_readonly_is_not_recursive_unless_asked(docker: DockerEngine, tmp_path: Path) -> None:
    """A file system below a read-only bind stays writable, on engines that would do otherwise, too."""
    (tmp_path / "below").mkdir()
    linux.mount("tmpfs", tmp_path / "below", "tmpfs")
    try:
        mount = EngineMount(source=str(tmp_path), target="/data", readonly=True)
        script = "touch /data/below/x && ! touch /data/y"
        spec = ContainerSpec(image=BUSYBOX_REF, labels={}, entrypoint=("sh", "-c", script), mounts=(mount,))
        container_id = await docker.create("half-open", spec)
        await docker.start(container_id)
        await asyncio.wait_for(docker.wait(container_id), 30)
        assert (await docker.inspect(container_id)).exit_code == 0
        await docker.remove(container_id)
    finally:
        linux.umount(tmp_path / "below")
