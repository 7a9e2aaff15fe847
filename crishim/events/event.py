"""The events that a change of the index means. Pure: a change in, kinds of events out.

Each object is told of as CREATED, STARTED, STOPPED, DELETED, each once in a life, in this order; a restart behind our
back adds a STOPPED and a STARTED. One change may mean several: what ended before anybody saw it run was started, too.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from crishim.model import ContainerState
from crishim.runtime.index import Change
from crishim.runtime.objects import Container, Sandbox


class EventKind(enum.IntEnum):
    """CRI `ContainerEventType`."""

    CREATED = 0
    STARTED = 1
    STOPPED = 2
    DELETED = 3


@dataclass(frozen=True, slots=True)
class Event:
    """One event, with the pod as it was then (CRI `ContainerEventResponse`)."""

    object_id: str
    """Of the container, or of the sandbox itself."""
    kind: EventKind
    created_at: int
    """Nanoseconds since the epoch; no two events have the same, and a later one has a later one."""
    sandbox: Sandbox
    """As of then; of one that was deleted what was last known."""
    containers: Sequence[Container]
    """Those that the pod had then."""
    sandbox_listed: bool
    """False: the sandbox has just been deleted, and nothing may be kept ready of it."""


def what_happened(change: Change) -> list[EventKind]:
    """The kinds of events that a change means, in order."""
    if isinstance(change.before, Sandbox) or isinstance(change.after, Sandbox):
        assert not isinstance(change.before, Container), "an object does not change its kind"
        assert not isinstance(change.after, Container), "an object does not change its kind"
        return _of_sandbox(change.before, change.after)
    return _of_container(change.before, change.after)


def _of_sandbox(before: Sandbox | None, after: Sandbox | None) -> list[EventKind]:
    kinds = [] if before is not None else [EventKind.CREATED]
    was, now = before is not None and before.ready, after is not None and after.ready
    if was != now:
        kinds.append(EventKind.STARTED if now else EventKind.STOPPED)
    if after is None:
        kinds.append(EventKind.DELETED)
    return kinds


def _of_container(before: Container | None, after: Container | None) -> list[EventKind]:
    kinds = [] if before is not None else [EventKind.CREATED]
    known_before = before is not None and before.state is not ContainerState.CONTAINER_UNKNOWN
    was_running = before is not None and before.running
    if after is None:
        return [*kinds, *([EventKind.STOPPED] if was_running else []), EventKind.DELETED]
    if after.state is ContainerState.CONTAINER_UNKNOWN:
        return kinds
    # A container that was known from its record alone has been started, if at all, in an earlier life of ours.
    started_before = before.live.started_at if before is not None and known_before else 0
    again = after.live.started_at != started_before and (known_before or before is None)
    started = again and bool(after.live.started_at) and after.state is not ContainerState.CONTAINER_CREATED
    if started and was_running:
        kinds.append(EventKind.STOPPED)
    if started and not after.start_failed:
        kinds.append(EventKind.STARTED)
    was_exited = before is not None and before.state is ContainerState.CONTAINER_EXITED
    if after.state is ContainerState.CONTAINER_EXITED and (started or not was_exited):
        kinds.append(EventKind.STOPPED)
    return kinds
