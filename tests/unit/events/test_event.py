"""Which events a change means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crishim.checkpoint.record import ContainerRecord, Phase, SandboxRecord
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.events.event import EventKind, what_happened
from crishim.model import ContainerConfig, ContainerMetadata, PodSandboxConfig, PodSandboxMetadata
from crishim.runtime.index import Change
from crishim.runtime.objects import Container, Sandbox

CREATED, STARTED, STOPPED, DELETED = EventKind
BORN = EngineContainer(
    id="c", name="/k8s_c", image_id="i", image="i", phase=ContainerPhase.CREATED, created_at=1, labels={}
)
UP = replace(BORN, phase=ContainerPhase.RUNNING, pid=7, started_at=5)
PAUSED = replace(UP, paused=True)
DOWN = replace(UP, phase=ContainerPhase.EXITED, pid=0, finished_at=6, exit_code=1)
UP_AGAIN = replace(UP, pid=8, started_at=9)
DOWN_AGAIN = replace(DOWN, started_at=9, finished_at=10)
FAILED = replace(BORN, error="no such file", exit_code=127)


def container(live: EngineContainer | None, *, seen: bool = True) -> Container | None:
    config = ContainerConfig(metadata=ContainerMetadata(name="c"))
    record = ContainerRecord(id="c", config=config, image_ref="i", created_at=1)
    return None if live is None else Container(record=record, sandbox_id="s", live=live, seen=seen)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (None, BORN, [CREATED]),
        (None, UP, [CREATED, STARTED]),
        (None, DOWN, [CREATED, STARTED, STOPPED]),
        (None, FAILED, [CREATED, STOPPED]),
        (BORN, UP, [STARTED]),
        (BORN, DOWN, [STARTED, STOPPED]),
        (BORN, FAILED, [STOPPED]),
        (BORN, None, [DELETED]),
        (UP, PAUSED, []),
        (UP, DOWN, [STOPPED]),
        (UP, UP_AGAIN, [STOPPED, STARTED]),
        (UP, DOWN_AGAIN, [STOPPED, STARTED, STOPPED]),
        (UP, None, [STOPPED, DELETED]),
        (DOWN, UP_AGAIN, [STARTED]),
        (DOWN, DOWN_AGAIN, [STARTED, STOPPED]),
        (DOWN, replace(DOWN, phase=ContainerPhase.REMOVING), []),
        (DOWN, None, [DELETED]),
        (FAILED, None, [DELETED]),
    ],
)
def test_containers(before: EngineContainer | None, after: EngineContainer | None, kinds: list[EventKind]) -> None:
    assert what_happened(Change("container", container(before), container(after))) == kinds


@pytest.mark.parametrize(("after", "kinds"), [(BORN, []), (UP, []), (DOWN, [STOPPED]), (None, [DELETED])])
def test_of_a_container_that_was_only_recorded(after: EngineContainer | None, kinds: list[EventKind]) -> None:
    """It was created and started in an earlier life of ours; that it ended may be news."""
    change = Change("container", container(BORN, seen=False), container(after))
    assert what_happened(change) == kinds
    assert what_happened(Change("container", container(BORN), container(BORN, seen=False))) == []


def sandbox(phase: Phase | None, live: EngineContainer | None = UP) -> Sandbox | None:
    if phase is None:
        return None
    config = PodSandboxConfig(metadata=PodSandboxMetadata(name="p", uid="u", namespace="n"))
    return Sandbox(record=SandboxRecord(id="s", phase=phase, config=config, created_at=1, started_at=5), live=live)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (sandbox(None), sandbox(Phase.CREATING), [CREATED]),
        (sandbox(None), sandbox(Phase.READY), [CREATED, STARTED]),
        (sandbox(Phase.CREATING), sandbox(Phase.READY), [STARTED]),
        (sandbox(Phase.CREATING), sandbox(None), [DELETED]),
        (sandbox(Phase.READY), sandbox(Phase.STOPPED), [STOPPED]),
        (sandbox(Phase.READY), sandbox(Phase.READY, None), [STOPPED]),
        (sandbox(Phase.STOPPED), sandbox(Phase.STOPPED, DOWN), []),
        (sandbox(Phase.STOPPED), sandbox(None), [DELETED]),
        (sandbox(Phase.READY), sandbox(None), [STOPPED, DELETED]),
    ],
)
def test_sandboxes(before: Sandbox | None, after: Sandbox | None, kinds: list[EventKind]) -> None:
    assert what_happened(Change("sandbox", before, after)) == kinds
