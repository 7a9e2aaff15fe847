"""Where a container's log is to be found, after a restart of the server, too."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from crishim.engine.simulated import Fail
from crishim.engine.values import ContainerSpec
from crishim.errors import EngineError
from crishim.model import ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig
from crishim.runtime import labels
from crishim.runtime.container_create import create_container
from tests.usecase.runtime.world import World


async def test_a_log_link_that_a_killed_server_did_not_make(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = await world.run()
    container = await world.create(sandbox)
    with monkeypatch.context() as patched:
        begun = asyncio.Event()

        async def stall(*_: object) -> None:
            begun.set()
            await asyncio.Event().wait()

        patched.setattr("crishim.runtime.container_start.make_log_link", stall)
        starting = world.background(world.start_container(container))
        await begun.wait()
        await world.restart(kill=True)
    assert starting.cancelled()
    found = world.rt.index.need_container(container)
    assert world.state(container) == "RUNNING"
    assert Path(found.log_path).resolve() == Path(found.live.log_path).resolve()
    # A pod whose folder of logs was taken away has no use for one.
    shutil.rmtree(Path(found.log_path).parent)
    await world.node.compare()
    assert not Path(found.log_path).parent.exists()


@pytest.mark.parametrize("unread", [False, True])
async def test_a_log_in_another_folder_than_the_sandboxs(world: World, tmp_path: Path, *, unread: bool) -> None:
    """CreateContainer may tell one of its own, and that is where the log lies after a restart, too."""
    sandbox = await world.run()
    config = ContainerConfig(
        metadata=ContainerMetadata(name="main"),
        image=ImageSpec(image="busybox"),
        command=("serve",),
        log_path="main.log",
    )
    pod_config = PodSandboxConfig(log_directory=str(tmp_path / "elsewhere"))
    container = await create_container(world.rt, sandbox, config, pod_config)
    await world.start_container(container)
    if unread:
        await world.node.close()
        refused = Fail(EngineError("by the test"))
        line = world.engine.script("inspect", refused, times=None, match=lambda asked: asked == container)
        await world.start()
        assert world.state(container) == "UNKNOWN"
        line.cancel()
        await world.until(lambda: world.state(container) == "RUNNING", 5)
    else:
        await world.restart()
    assert world.rt.index.need_container(container).log_path == str(tmp_path / "elsewhere" / "main.log")
    await world.remove(sandbox)
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_an_images_labels_put_no_link_anywhere(world: World, tmp_path: Path) -> None:
    """They become those of any container that is made of it, by hand, too."""
    sandbox = await world.run()
    target = tmp_path / "cron.d" / "job"
    target.parent.mkdir()
    spoofed = {
        labels.TYPE: labels.CONTAINER,
        labels.SANDBOX_ID: sandbox,
        labels.LOG_PATH: str(target),
        "io.kubernetes.container.name": "x",
    }
    stranger = await world.engine.create("by-hand", ContainerSpec(image="busybox", command=("serve",), labels=spoofed))
    await world.engine.start(stranger)
    await world.node.compare()
    assert world.rt.index.container(stranger) is None
    assert not target.is_symlink()
    await world.engine.remove(stranger)
