"""The kernel's counters of containers under a memory limit: one each while they run, and what they say at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crishim.model import LinuxContainerConfig, LinuxContainerResources
from crishim.stats import oom
from crishim.stats.oom import OutOfMemory
from tests.usecase.runtime.world import World

LIMITED = LinuxContainerConfig(resources=LinuxContainerResources(memory_limit_in_bytes=16 << 20))


class Kernel:
    """Cgroups as files, and the counters that were asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counters: dict[str, int] = {}

    def open(self, proc: str, container_id: str, pid: int) -> oom.Counted:
        self.counters[container_id] = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.says(container_id, 0)
        return oom.Counted(self.counters[container_id], str(self.folder / container_id))

    def open_version_2(self, proc: str, container_id: str, pid: int) -> str:
        self.says(container_id, 0)
        return str(self.folder / container_id)

    def says(self, container_id: str, kills: int) -> None:
        (self.folder / container_id).write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n")

    def removes(self, container_id: str) -> None:
        (self.folder / container_id).unlink()
        os.eventfd_write(self.counters[container_id], 1)

    def is_open(self, container_id: str) -> bool:
        try:
            return "eventfd" in os.readlink(f"/proc/self/fd/{self.counters[container_id]}")
        except FileNotFoundError:
            return False


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    folder = tmp_path / "cgroups"
    folder.mkdir()
    kernel = Kernel(folder)
    monkeypatch.setattr(oom, "_open", kernel.open)
    return kernel


@pytest.fixture
def memory(world: World, kernel: Kernel) -> Iterator[OutOfMemory]:
    memory = OutOfMemory(world.rt.index, world.rt.background)
    yield memory
    memory.close()
    assert repr(memory) == "<OutOfMemory 0 watched>"
    assert not any(kernel.is_open(container_id) for container_id in kernel.counters)


async def test_a_counter_lives_as_long_as_its_container_runs(world: World, kernel: Kernel, memory: OutOfMemory) -> None:
    sandbox = await world.run()
    limited = await world.run_container(sandbox, name="limited", linux=LIMITED)
    await world.run_container(sandbox, name="free")
    await world.quiet()
    assert list(kernel.counters) == [limited], "no other has a limit that it could run into"
    first = kernel.counters[limited]
    world.engine.restart_container(limited)
    await world.quiet()
    assert (kernel.is_open(limited), repr(memory)) == (True, "<OutOfMemory 1 watched>")
    await world.stop_container(limited)
    assert not kernel.is_open(limited)
    assert not memory.happened(limited)
    assert first >= 0


async def test_what_the_kernel_says(world: World, kernel: Kernel, memory: OutOfMemory) -> None:
    sandbox = await world.run()
    names = ("there", "starved", "gone", "gone starved")
    there, starved, gone, gone_starved = [
        await world.run_container(sandbox, name=name.replace(" ", "-"), linux=LIMITED) for name in names
    ]
    await world.quiet()
    kernel.says(starved, 1)
    os.eventfd_write(kernel.counters[gone_starved], 1)
    kernel.removes(gone)
    kernel.removes(gone_starved)
    told = {name: memory.happened(i) for name, i in zip(names, (there, starved, gone, gone_starved), strict=True)}
    assert told == {"there": False, "starved": True, "gone": False, "gone starved": True}
    assert not memory.happened("unknown")


async def test_version_2_tells_while_the_cgroup_is_there(
    world: World, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is read when the kernel says that it has changed, as it goes with the cgroup."""
    monkeypatch.setattr(oom, "_open", kernel.open_version_2)
    before = queues()
    memory = OutOfMemory(world.rt.index, world.rt.background)
    sandbox = await world.run()
    names = ("there", "starved", "gone", "gone-starved", "restarted")
    there, starved, gone, gone_starved, restarted = [
        await world.run_container(sandbox, name=name, linux=LIMITED) for name in names
    ]
    await world.quiet()
    assert (repr(memory), queues()) == ("<OutOfMemory 5 watched>", before + 1)
    for container_id in (starved, gone_starved, restarted):
        kernel.says(container_id, 1)
    await world.quiet()
    world.engine.restart_container(restarted)
    await world.quiet()
    for container_id in (gone, gone_starved):
        (kernel.folder / container_id).unlink()
    await world.quiet()
    told = [memory.happened(i) for i in (there, starved, gone, gone_starved, restarted)]
    assert told == [False, True, False, True, False]
    for container_id in (there, gone_starved):
        await world.stop_container(container_id)
    await world.quiet()
    assert (repr(memory), memory.happened(gone_starved)) == ("<OutOfMemory 3 watched>", False)
    memory.close()
    assert (repr(memory), queues()) == ("<OutOfMemory 0 watched>", before)


def queues() -> int:
    """Descriptors of this process that are told of changes."""
    links = (os.path.join("/proc/self/fd", number) for number in os.listdir("/proc/self/fd"))
    return sum(os.path.lexists(link) and "inotify" in os.readlink(link) for link in links)


async def test_a_cgroup_that_is_gone_before_it_is_watched(
    world: World, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oom, "_open", lambda proc, container_id, pid: str(kernel.folder / "none"))
    memory = OutOfMemory(world.rt.index, world.rt.background)
    container = await world.run_container(await world.run(), linux=LIMITED)
    await world.quiet()
    assert (repr(memory), memory.happened(container)) == ("<OutOfMemory 0 watched>", False)
    memory.close()
