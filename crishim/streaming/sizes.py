"""The terminal's size as clients send it: JSON objects one after the other, `{"Width": 80, "Height": 24}`."""

from __future__ import annotations

import json

from crishim.model.streams import TerminalSize
from crishim.streaming.errors import ProtocolViolation

_LIMIT = 4 << 10
_LARGEST = 0xFFFF
"""Of struct winsize (ioctl_tty(2))."""


class SizeReader:
    """Finds the objects in a stream of bytes."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes | bytearray | memoryview) -> list[TerminalSize]:
        """The sizes that are complete now; one without width or height is left out. Raises ProtocolViolation."""
        # Objects hold no objects: each ends with the first brace.
        *complete, rest = (self._buffer + bytes(data)).split(b"}")
        if len(rest) > _LIMIT:
            raise ProtocolViolation("terminal size is too long")
        self._buffer = rest
        return [size for text in complete if (size := _parse(text + b"}")) is not None]


def _parse(text: bytes) -> TerminalSize | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolViolation("terminal size is not JSON") from None
    if not isinstance(value, dict):
        raise ProtocolViolation("terminal size is not an object")
    width, height = value.get("Width", 0), value.get("Height", 0)
    if type(width) is not int or type(height) is not int:
        raise ProtocolViolation("terminal size is not in whole numbers")
    if 1 <= width <= _LARGEST and 1 <= height <= _LARGEST:
        return TerminalSize(width, height)
    return None
