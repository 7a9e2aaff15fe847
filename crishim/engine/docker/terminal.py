"""A terminal's size, and the keys on which the engine would let go of it."""

from __future__ import annotations

import secrets
import string

from crishim.engine.docker.connection import Connection
from crishim.engine.docker.errors import guard
from crishim.model.streams import TerminalSize

_RAREST = "ctrl-^"
_LENGTH = 32


def detach_keys() -> str:
    """Keys that nobody types: the engine lets go of a terminal on ctrl-p ctrl-q, and no value says never.

    The engine holds the first one back until the next byte tells that it is not the sequence, so it is the control
    character that programs use least. All else arrives at once, ctrl-p and ctrl-q included.
    """
    alphabet = string.ascii_letters + string.digits
    return ",".join([_RAREST, *(secrets.choice(alphabet) for _ in range(_LENGTH))])


class Terminal:
    """Gives one terminal its sizes: while the engine is at one, only the newest of those that follow waits."""

    def __init__(self, connection: Connection, path: str, limit: float) -> None:
        self._connection = connection
        self._path = path
        self._limit = limit
        self._wanted: TerminalSize | None = None
        self._busy = False

    async def resize(self, size: TerminalSize) -> None:
        """Returns when this size, or a newer one, is in force, or someone else is at it. Raises the engine's errors."""
        self._wanted = size
        if self._busy:
            return
        self._busy = True
        try:
            while (size_now := self._wanted) is not None:
                self._wanted = None
                async with guard("resize of a terminal", self._limit):
                    await self._connection.tell(self._path, {"h": str(size_now.height), "w": str(size_now.width)})
        finally:
            self._busy = False
