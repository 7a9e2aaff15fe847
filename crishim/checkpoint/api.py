"""What crishim asks of a checkpoint store, on one screen.

Durable means: survives the process being killed at any moment (docs/decisions/checkpoint-durability.md says why not
more). Errors are `crishim.checkpoint.errors.StoreUnavailable` (cannot be opened, disk full, I/O error, closed): the
change is then not made, or not known to be. No blocking work happens on the event loop. What every store must do is
checked by `crishim.testing.checkpoint_contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from crishim.checkpoint.record import SandboxRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """Something unreadable that was taken out of the way, for the log and for the person who reads it."""

    name: str
    """Id of the sandbox where it is known, else the store's own word for the thing (a file name)."""
    reason: str
    """What is wrong with it, in one line."""
    kept_at: str
    """Where it lies now, word for word as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """All that a store holds."""

    records: tuple[SandboxRecord, ...]
    """In no particular order."""
    set_aside: tuple[SetAside, ...] = ()
    """What opening and reading found unreadable, each told once; the rest of the store is whole."""


class CheckpointStore(ABC):
    """Keeps one record per sandbox, and a few values of the node. Made with the state folder as only argument."""

    @abstractmethod
    async def open(self) -> None:
        """Open the store, making it where there is none. Called once, before anything else.

        A store that is damaged, truncated, or not one at all is set aside and a new one opened: a bad file must not
        keep the server from starting. Raises StoreUnavailable only where no store can be had: the folder cannot be
        made or written, the disk fails while the store itself is whole, or another process has the store open.
        """

    @abstractmethod
    async def load(self) -> Loaded:
        """Read all records. One that is corrupt or of a future version is set aside (kept, and told) and not read
        again."""

    @abstractmethod
    async def put(self, record: SandboxRecord) -> None:
        """Write a record, replacing the one of the same id; durable on return.

        Calls for different sandboxes may overlap. Calls for one sandbox are ordered by the caller. A call that is
        cancelled has written the record or not, never a part of it, and never after a later call for the same
        sandbox.
        """

    @abstractmethod
    async def delete(self, sandbox_id: str) -> None:
        """Forget a record; durable on return. One that is not there is no error."""

    @abstractmethod
    async def get_value(self, key: str) -> str | None:
        """A value of the node (the last seen cgroup driver, say), None if it was never put."""

    @abstractmethod
    async def put_value(self, key: str, value: str) -> None:
        """Write a value of the node; durable on return."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was begun and close. May come twice. Every other call afterwards raises StoreUnavailable."""
