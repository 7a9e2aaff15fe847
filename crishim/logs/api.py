"""What the rest of crishim asks of the logs' writer, on one screen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProgress:
    """How far a container's log has been written. The two halves are of one moment."""

    spool: tuple[int, int, int]
    """Inode of the engine's file, bytes of it that were taken, and the checksum of its first line."""
    file: tuple[int, int]
    """Inode of the log file, and its size then; less than 0: so much of what comes next is in the file before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlaces:
    """Where a container's output comes from and where it goes to."""

    container_id: str
    spool: str
    """Path of the engine's json-file."""
    folder: str
    """The pod's folder of logs (CRI `PodSandboxConfig.log_directory`)."""
    name: str
    """Path of the log below it."""


class LogWriter(ABC):
    """Writes container logs.

    `on_progress` is called from time to time with what `begin` must be given after a restart; `on_note` with what a
    person should read in the server's log. Both are called on the event loop and must not fail.

    Every method but `close` raises LogFailed when the log cannot be used, with the reason; a writer that died is
    started again, and what was asked of it is asked again.
    """

    def __init__(self) -> None:
        self.on_progress: Callable[[str, LogProgress], None] = lambda _id, _progress: None
        self.on_note: Callable[[str, str], None] = lambda _id, _note: None

    @abstractmethod
    async def begin(self, places: LogPlaces, at: LogProgress | None, *, new: bool) -> LogProgress | None:
        """Open a container's log and write to it from now on; one that is written already is left alone.

        `at`: as told last. Without it, `new` says that the container has not run; else the place is looked for that
        the log's last line came from.
        """

    @abstractmethod
    async def complete(self, container_id: str) -> LogProgress | None:
        """Write all that the spool of a container that has ended holds, and let go of its log; None: it was not
        written. Waits as long as there is no room."""

    @abstractmethod
    async def reopen(self, container_id: str) -> LogProgress | None:
        """Write to a new file at the log's path from the next line on; what is there already is appended to."""

    @abstractmethod
    async def drop(self, container_id: str) -> None:
        """Let go of a log as it is. One that is not written is no error."""

    @abstractmethod
    def mark_late(self, container_id: str) -> None:
        """The end of this log's container has been told: lines that are still to be written are counted as late."""

    @abstractmethod
    def state(self) -> Mapping[str, object]:
        """For the node's status and metrics: `pid` of the writer, 0 for none, and numbers.

        `logs` is how many are written, `restarts` of writers that died, `lag_bytes` what spools hold and logs do not
        (both as they were half a second ago at most); all others are those of `crishim.logs.follower.Counters`, which
        never decrease in a server's life.
        """

    @abstractmethod
    async def close(self) -> None:
        """Stop writing; progress is told before."""
