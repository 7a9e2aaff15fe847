"""The in-memory index: every sandbox, container and name, for reads that cost the engine nothing.

All methods are synchronous: a change is complete between two awaits. The index is rebuilt from engine and checkpoints
at start and is never the only copy of anything. It knows no protobuf: who shows its objects keeps ready-made messages
by id and revision.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from crishim.errors import AmbiguousId, ContainerNotFound, SandboxNotFound
from crishim.runtime.objects import Container, Sandbox

Object = TypeVar("Object", Sandbox, Container)


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one object; `after` None: it is gone."""

    kind: Literal["sandbox", "container"]
    before: Sandbox | Container | None
    after: Sandbox | Container | None


Listener = Callable[[Change], None]


class Index:
    """Sandboxes and containers by id."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, Sandbox] = {}
        self._containers: dict[str, Container] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._revisions = itertools.count(1)
        self._listeners: list[Listener] = []

    def __repr__(self) -> str:
        return f"<Index {len(self._sandboxes)} sandboxes, {len(self._containers)} containers>"

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each change, synchronously; it must not fail. Returns how to unsubscribe."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # --- changes

    def put_sandbox(self, sandbox: Sandbox) -> Sandbox:
        """Add or replace; returns the value with its revision."""
        before = self._sandboxes.get(sandbox.id)
        if before is not None and _same(before, sandbox):
            return before
        after = replace(sandbox, revision=next(self._revisions))
        self._sandboxes[after.id] = after
        self._members.setdefault(after.id, {})
        self._tell(Change("sandbox", before, after))
        return after

    def put_container(self, container: Container) -> Container:
        """Add or replace; its sandbox must be known. Returns the value with its revision."""
        before = self._containers.get(container.id)
        if before is not None and _same(before, container):
            return before
        after = replace(container, revision=next(self._revisions))
        self._containers[after.id] = after
        self._members[after.sandbox_id][after.id] = None
        self._tell(Change("container", before, after))
        return after

    def drop_sandbox(self, sandbox_id: str) -> None:
        """Forget a sandbox and what is left of its containers; none of that id is no error."""
        for container_id in tuple(self._members.get(sandbox_id, ())):
            self.drop_container(container_id)
        self._members.pop(sandbox_id, None)
        if (before := self._sandboxes.pop(sandbox_id, None)) is not None:
            self._tell(Change("sandbox", before, None))

    def drop_container(self, container_id: str) -> None:
        """Forget a container; none of that id is no error."""
        if (before := self._containers.pop(container_id, None)) is not None:
            self._members[before.sandbox_id].pop(container_id, None)
            self._tell(Change("container", before, None))

    def _tell(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            listener(change)

    # --- reads

    def sandbox(self, sandbox_id: str) -> Sandbox | None:
        """By full id."""
        return self._sandboxes.get(sandbox_id)

    def container(self, container_id: str) -> Container | None:
        """By full id."""
        return self._containers.get(container_id)

    def sandboxes(self) -> Iterable[Sandbox]:
        """All, oldest entry first. Not to be held across an await."""
        return self._sandboxes.values()

    def containers(self) -> Iterable[Container]:
        """All, oldest entry first. Not to be held across an await."""
        return self._containers.values()

    def containers_of(self, sandbox_id: str) -> list[Container]:
        """The containers of a sandbox in order of creation; none for an unknown sandbox."""
        return [self._containers[i] for i in self._members.get(sandbox_id, ())]

    def find_sandbox(self, id_or_prefix: str) -> Sandbox | None:
        """By full id or unique prefix, None for none. Raises AmbiguousId."""
        return _find(self._sandboxes, id_or_prefix)

    def find_container(self, id_or_prefix: str) -> Container | None:
        """By full id or unique prefix, None for none. Raises AmbiguousId."""
        return _find(self._containers, id_or_prefix)

    def need_sandbox(self, id_or_prefix: str) -> Sandbox:
        """Like find_sandbox. Raises SandboxNotFound for none, and for an empty id."""
        if not id_or_prefix or (found := self.find_sandbox(id_or_prefix)) is None:
            raise SandboxNotFound(f"pod sandbox {id_or_prefix!r} not found", sandbox=id_or_prefix)
        return found

    def need_container(self, id_or_prefix: str) -> Container:
        """Like find_container. Raises ContainerNotFound for none, and for an empty id."""
        if not id_or_prefix or (found := self.find_container(id_or_prefix)) is None:
            raise ContainerNotFound(f"container {id_or_prefix!r} not found", container=id_or_prefix)
        return found


def _find(objects: Mapping[str, Object], id_or_prefix: str) -> Object | None:
    if id_or_prefix in objects:
        return objects[id_or_prefix]
    matches: Iterator[str] = (i for i in objects if i.startswith(id_or_prefix))
    first = next(matches, None)
    if first is None:
        return None
    if (second := next(matches, None)) is not None:
        raise AmbiguousId(f"id prefix {id_or_prefix!r} is ambiguous: {first[:13]}…, {second[:13]}…")
    return objects[first]


def _same(before: Sandbox | Container, after: Sandbox | Container) -> bool:
    return replace(before, revision=0) == replace(after, revision=0)
