"""Where recorded trees tell of memory that ran out, and that it is noticed."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

import pytest

from crishim.aiokit.background import Background
from crishim.runtime.index import Index
from crishim.stats import oom
from tests.unit.stats.conftest import Tree

STARVED = "low 0\nhigh 0\nmax 31\noom 1\noom_kill 1\noom_group_kill 0\n"


async def test_version_2_is_read_when_it_changes(v2: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    path = oom._open(v2.proc, v2.container, v2.pids["container"])
    assert isinstance(path, str)
    assert path.endswith(f"docker-{v2.container}.scope/memory.events")
    notices = oom.Notices()
    watched, other = oom.Events(path, notices), oom.Events(path.replace(v2.container, v2.sandbox), notices)
    assert not watched.starved()
    looked = asyncio.Event()
    look = watched.look

    def noting() -> None:
        look()
        looked.set()

    monkeypatch.setitem(notices._told, watched._number, noting)
    with open(path, "w") as file:
        file.write(STARVED)
    async with asyncio.timeout(10):
        await looked.wait()
    os.unlink(path)
    assert (watched.starved(), other.starved()) == (True, False)
    watched.close()
    other.close()
    notices.close()


async def test_version_2_from_before_it_was_watched(v2: Tree) -> None:
    path = oom._open(v2.proc, v2.container, v2.pids["container"])
    assert isinstance(path, str)
    with open(path, "w") as file:
        file.write(STARVED)
    notices = oom.Notices()
    watched = oom.Events(path, notices)
    os.unlink(path)
    assert watched.starved()
    watched.close()
    notices.close()


def test_version_1_has_a_counter(v1: Tree) -> None:
    place = v1.kernel().place(v1.container, v1.pids["container"])
    control = v1.root / os.path.relpath(place.folders["memory"], v1.root) / "cgroup.event_control"
    control.write_text("")
    counted = oom._open(v1.proc, v1.container, v1.pids["container"])
    assert isinstance(counted, oom.Counted)
    assert len(control.read_text().split()) == 2, "the counter and what it counts"
    assert not counted.starved()
    counted.close()


def test_a_container_that_has_ended_is_not_watched(tree: Tree) -> None:
    assert oom._open(tree.proc, tree.container, 4_000_000) is None
    assert oom._open(tree.proc, tree.container, tree.pids["sandbox"]) is None


async def test_what_is_found_after_the_end_is_watched_no_more(v2: Tree) -> None:
    pid = v2.pids["container"]
    index, background = Index(), Background()
    watched = oom.OutOfMemory(index, background, proc=v2.proc)
    index.container = lambda _id: SimpleNamespace(live=SimpleNamespace(pid=pid))  # type: ignore[method-assign,assignment,return-value]
    watching = asyncio.create_task(watched._watch(v2.container, pid))
    await asyncio.sleep(0)  # it is being looked for
    watched.close()
    await watching
    assert "0 watched" in repr(watched)
    assert watched._notices._queue is None, "a descriptor is left"
