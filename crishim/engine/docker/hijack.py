"""A connection to the engine that carries a process's streams: demultiplexed, with back-pressure both ways.

Not read, the engine is held up, and with it the process; a writer waits until the engine takes more.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import Any

from crishim.engine.docker.errors import broken_off
from crishim.engine.docker.frames import Frames, Output, Raw
from crishim.engine.docker.upgrade import UpgradeAnswer
from crishim.errors import EngineUnavailable

_READ_HIGH = 256 << 10
"""Bytes of output waiting to be read from which on the engine is held up."""
_READ_LOW = 64 << 10
_WRITE_HIGH = 256 << 10
_SEND_BUFFER = 512 << 10
"""Bytes that the kernel may hold for the engine (the kernel's own limit permitting): with its default, half of all
pieces of input have to be sent in two, each time with two waits of the loop's."""


class Hijacked(asyncio.Protocol):
    """One such connection, from its request on. Made by `Connection.hijack`.

    One task reads, another may write. `what` names the stream in messages.
    """

    def __init__(self, what: str, *, tty: bool) -> None:
        self._what = what
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.answer = UpgradeAnswer()
        self.answered: asyncio.Future[None] = self._loop.create_future()
        """Done when the engine has answered; fails when the connection breaks before."""
        self.touched = asyncio.Event()
        """Set when anything has come, the end included."""
        self._demultiplexer: Frames | Raw = Raw() if tty else Frames()
        self._items: deque[Output] = deque()
        self._size = 0
        self._held_up = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._writable = True
        self._input_ended = False
        self.ended = False
        """Nothing more will come."""
        self._fault: EngineUnavailable | None = None

    def __repr__(self) -> str:
        state = "ended" if self.ended else "open" if self.answer.upgraded else "new"
        return f"<Hijacked {self._what}: {state}, {self._size} bytes to be read>"

    # --- for its user

    async def read(self) -> Output | None:
        """The next output; None at the end. Raises EngineUnavailable."""
        while not self._items:
            if self._fault is not None:
                raise self._fault
            if self.ended:
                return None
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        item = self._items.popleft()
        self._size -= len(item[1])
        if self._held_up and self._size <= _READ_LOW and self._transport is not None:
            self._held_up = False
            self._transport.resume_reading()
        return item

    async def write(self, data: bytes | memoryview) -> None:
        """Write and wait until there is room for more. After the end, or once input was ended, data is dropped."""
        if self.ended or self._input_ended or self._transport is None:
            return
        self._transport.write(data)
        while not self._writable and not self.ended:
            self._writer = self._loop.create_future()
            try:
                await self._writer
            finally:
                self._writer = None

    def write_eof(self) -> None:
        """End the input after all that was written; again: no error."""
        if not self._input_ended and not self.ended and self._transport is not None:
            self._transport.write_eof()
        self._input_ended = True

    def abort(self, fault: EngineUnavailable | None = None) -> None:
        """Close at once; input that the engine has not taken is dropped. Readers get what came, then end or `fault`."""
        if self._fault is None and not self.ended:
            self._fault = fault
        if self._transport is not None:
            # Not close(): that waits for the engine to take what was written, which may be never.
            self._transport.abort()
        self._end()

    # --- for the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_HIGH)
        if (connected := transport.get_extra_info("socket")) is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)

    def send(self, request: bytes) -> None:
        """Send the request that the engine answers with a stream."""
        assert self._transport is not None, "sent before it is connected"
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        try:
            if not self.answered.done():
                rest = self.answer.feed(data)
                if rest is None:
                    return
                self.answered.set_result(None)
                if not self.answer.upgraded or not rest:
                    return
                data = rest
            self._take(self._demultiplexer.feed(data))
        except ValueError as error:
            self.abort(EngineUnavailable(f"{self._what}: the engine's answer is not understood: {error}"))

    def _take(self, output: list[Output]) -> None:
        if not output or self.ended:
            return
        self._items.extend(output)
        self._size += sum(len(payload) for _, payload in output)
        if self._size >= _READ_HIGH and not self._held_up and self._transport is not None:
            self._held_up = True
            self._transport.pause_reading()
        self.touched.set()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._end()
        if self._transport is not None:
            # The engine closes its side when all is over: nobody would read what is still to be written.
            self._transport.abort()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self.ended and self._fault is None:
            self._fault = broken_off(self._what, exc)
        self._end()

    def _end(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self._demultiplexer.mid_frame and self._fault is None:
            self._fault = EngineUnavailable(f"{self._what}: the engine broke off")
        if not self.answered.done() and self.answer.end():
            self.answered.set_result(None)
        elif not self.answered.done():
            self.answered.set_exception(self._fault or EngineUnavailable(f"{self._what}: the engine broke off"))
            self.answered.exception()  # seen, also where nobody waits any more
        self.touched.set()
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        _wake(self._writer)


def _wake(waiter: asyncio.Future[Any] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
