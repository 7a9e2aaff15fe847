"""Lock files: one owner at a time, who holds the lock for life; the kernel lets go of a killed one's.

The file holds the owner's process id, for messages.
"""

from __future__ import annotations

import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

log = logging.getLogger(__name__)


class Taken(Exception):  # noqa: N818 - says what is wrong, as the family does; it never reaches a caller of CRI
    """Another process has what only one can have. The text is one line for people."""


class LockHeld(Exception):  # noqa: N818 - likewise; its maker knows what is taken
    """Another process holds the lock; `holder` is its id, empty if it is not known."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class LockFile:
    """The lock `path`, which is made by `take` and removed by `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether it is ours."""
        return self._descriptor is not None

    def take(self) -> None:
        """Take it. Raises LockHeld where another process has it, and OSError where the file cannot be made."""
        while True:
            lock = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(lock, 32).decode("ascii", "replace").strip()
                os.close(lock)
                raise LockHeld(holder) from None
            except BaseException:
                os.close(lock)
                raise
            try:
                if _same_file(os.fstat(lock), self.path):
                    os.ftruncate(lock, 0)
                    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
                    self._descriptor = lock
                    return
            except BaseException:
                os.close(lock)
                raise
            # The holder removed the file between our opening and our locking it: this lock guards nothing.
            os.close(lock)

    def release(self) -> None:
        """Let it go, if it is ours."""
        if self._descriptor is not None:
            with suppress(FileNotFoundError):
                self.path.unlink()
            os.close(self._descriptor)
            self._descriptor = None


class EngineClaim:
    """The right to be the one crishim of an engine, held from `with` to its end; for each adopts all pods of its own.

    The lock lies beside the engine's socket, where every server looks whatever its own folders are. Where that folder
    is not there (yet) or cannot be written, nothing is guarded, and the log says so.
    """

    def __init__(self, engine_socket: Path) -> None:
        self._socket = engine_socket
        real = Path(os.path.realpath(engine_socket))
        self._lock = LockFile(real.with_name(f"{real.name}.crishim.lock"))

    def __enter__(self) -> Self:
        """Raises Taken where another server has it."""
        try:
            self._lock.take()
        except LockHeld as held:
            who = f"process {held.holder}" if held.holder else "another process"
            text = f"the engine at {self._socket} is served by {who}; stop it, or choose another --engine"
            raise Taken(text) from None
        except OSError as error:
            log.warning("nothing keeps a second crishim from this engine: %s: %s", self._lock.path, error.strerror)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


def _same_file(opened: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(opened, path.lstat())
    except FileNotFoundError:
        return False
