"""The engine's multiplexed streams: bytes in, (stream, payload) out. No I/O.

A frame is an 8-byte head (stream number, three zero bytes, payload's length as big-endian 32 bits) and its payload. A
container with a terminal has no frames: all is standard output.
"""

from __future__ import annotations

from struct import Struct

from crishim.model.streams import OutputStream

_HEAD = Struct(">BxxxI")
_STREAMS = {0: OutputStream.STDOUT, 1: OutputStream.STDOUT, 2: OutputStream.STDERR, 3: OutputStream.STDERR}
"""0 is stdin's number, and never seen; 3 is the engine's own word about a stream that failed."""

Output = tuple[OutputStream, bytes]


class FrameError(ValueError):
    """What came is no frame: the two sides have lost each other."""


class Raw:
    """The streams of a process with a terminal."""

    mid_frame = False

    def feed(self, data: bytes) -> list[Output]:
        """All of it is output."""
        return [(OutputStream.STDOUT, data)] if data else []


class Frames:
    """Takes a multiplexed stream apart, however it is cut; payloads are given as they come, not kept to their end."""

    def __init__(self) -> None:
        self._head = b""
        self._stream = OutputStream.STDOUT
        self._left = 0

    @property
    def mid_frame(self) -> bool:
        """Whether a frame has begun and not ended: the stream broke if it ends now."""
        return bool(self._left or self._head)

    def feed(self, data: bytes) -> list[Output]:
        """The output in these bytes, in order, neighbours of one stream joined. Raises FrameError."""
        if self._head:
            data, self._head = self._head + data, b""
        view = memoryview(data)
        position, end = 0, len(data)
        found: list[Output] = []
        pieces: list[memoryview] = []
        while position < end:
            if not self._left:
                if end - position < _HEAD.size:
                    self._head = data[position:]
                    break
                number, self._left = _HEAD.unpack_from(data, position)
                position += _HEAD.size
                if (stream := _STREAMS.get(number)) is None:
                    raise FrameError(f"no stream has the number {number}")
                if stream is not self._stream:
                    if pieces:
                        found.append((self._stream, b"".join(pieces)))
                        pieces = []
                    self._stream = stream
                continue  # a payload can be empty
            piece = view[position : position + self._left]
            pieces.append(piece)
            position += len(piece)
            self._left -= len(piece)
        if pieces:
            found.append((self._stream, b"".join(pieces)))
        return found
