"""One client's connection: bytes to whoever receives at the moment, back-pressure both ways, and what the kernel knows.

A receiver is given what comes as soon as it comes, and says stop by `pause`. It is replaced when the upgrade is done:
what came too early waits until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Callable
from typing import cast

WRITE_HIGH = 256 << 10
"""Bytes that wait to be written from which on a connection is congested."""
_WRITE_LOW = 64 << 10
_COPIED = 8 << 10
"""Bytes of payload up to which copying is cheaper than what it spares."""
REPLIES_LIMIT = 1 << 20
"""Bytes that a protocol may have answered by itself while the connection was congested: more is a client that asks and
does not read."""
_ESTABLISHED = 1
_TCP_INFO = struct.Struct("8B13I")
_UNACKED, _LAST_ACK = 8 + 4, 8 + 12
"""Places in struct tcp_info (linux/tcp.h) of tcpi_unacked and tcpi_last_ack_recv."""

_PROBES_APART = 240.0
"""Twice the seconds that lie between two of the kernel's questions for room at most (TCP_RTO_MAX)."""


class Connection(asyncio.Protocol):
    """Made with the callback that hears of its end, once."""

    def __init__(self, when_lost: Callable[[Connection], None]) -> None:
        self._when_lost = when_lost
        self._receive: Callable[[bytes], None] | None = None
        self._on_lost: Callable[[], None] | None = None
        self._early: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._writable = asyncio.Event()
        self._writable.set()
        self.when_writable: Callable[[], None] | None = None
        """Called when the connection is not congested any more."""
        self.heartbeat: Callable[[], bytes] | None = None
        """What `beat` sends."""
        self.suspected = 0.0
        """Since when the client looks dead, on the loop's clock; 0: it does not."""
        self.lost = asyncio.Event()
        self.active = self._loop.time()
        """When bytes last moved, on the loop's clock."""
        self.reading_paused = False
        self._paused_for: set[str] = set()
        self._replied = 0

    # --- what asyncio calls -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._encrypted = transport.get_extra_info("ssl_object") is not None
        self._transport.set_write_buffer_limits(WRITE_HIGH, _WRITE_LOW)

    def data_received(self, data: bytes) -> None:
        self.active = self._loop.time()
        if self._receive is None:
            self._early.append(data)
            self.pause("nobody receives")
        else:
            self._receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receive = _discard
        self._early.clear()
        self.lost.set()
        self._writable.set()
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost()
        self._when_lost(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self.active = self._loop.time()
        self._writable.set()
        if self.when_writable is not None:
            self.when_writable()

    # --- receiving ----------------------------------------------------------------------------------------------

    def receive_by(self, receive: Callable[[bytes], None] | None, on_lost: Callable[[], None] | None = None) -> None:
        """From now on `receive` is given the bytes, and `on_lost` is called when the connection is gone.

        With None they wait here, and reading stops with the next that come.
        """
        self._receive, self._on_lost = receive, on_lost
        if self.lost.is_set():
            self._receive = _discard
            if on_lost is not None:
                on_lost()
            return
        if receive is not None:
            early, self._early = self._early, []
            for data in early:
                receive(data)
            self.resume("nobody receives")

    def unread(self, data: bytes) -> None:
        """Put back what belongs to the next receiver; before anything that waits for it already."""
        if data:
            self._early.insert(0, data)

    def pause(self, reason: str) -> None:
        """Stop reading until every reason to do so is taken back."""
        self._paused_for.add(reason)
        if not self.reading_paused and not self._transport.is_closing():
            self.reading_paused = True
            self._transport.pause_reading()

    def resume(self, reason: str) -> None:
        """Take a reason back."""
        self._paused_for.discard(reason)
        if self.reading_paused and not self._paused_for:
            self.reading_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # --- sending ------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send. Whoever sends much waits for `drained` while the connection is `congested`."""
        if data and not self._transport.is_closing():
            if self._writable.is_set():
                self.active = self._loop.time()
            self._transport.write(data)

    def write_parts(self, head: bytes, payload: bytes) -> None:
        """Send a frame in two parts; a large payload is not copied as long as the kernel takes it."""
        if len(payload) < _COPIED or self._encrypted:
            self.write(head + payload)
            return
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size():
            self._transport.write(head)
            self._transport.write(payload)
            return
        self.active = self._loop.time()
        try:
            sent = os.writev(self._socket().fileno(), (head, payload))
        except OSError:  # no room; or an error, which the transport finds again and ends the connection for
            sent = 0
        if sent < len(head):
            self._transport.write(head[sent:] + payload)
        elif sent < len(head) + len(payload):
            self._transport.write(memoryview(payload)[sent - len(head) :])

    def reply(self, data: bytes) -> None:
        """Send what a protocol answers by itself; a client that does not read the answers is dropped."""
        if not data:
            return
        # Only answers count: how much output waits is not the client's doing.
        self._replied = self._replied + len(data) if self.congested else 0
        if self._replied > REPLIES_LIMIT:
            self.abort()
        else:
            self.write(data)

    def beat(self) -> None:
        """Tell a client of whom nothing is read that we are alive, if the protocol has words for that."""
        if (
            self.heartbeat is not None
            and self.reading_paused
            and not self.congested
            and not self._transport.is_closing()
        ):
            self._transport.write(self.heartbeat())

    @property
    def congested(self) -> bool:
        """Whether much waits to be sent."""
        return not self._writable.is_set()

    async def drained(self) -> None:
        """Wait until there is room, or the connection is gone."""
        await self._writable.wait()

    # --- ending -------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """End at once; what waits to be sent is lost."""
        self._transport.abort()

    def close(self) -> None:
        """End when everything is sent."""
        self._transport.close()

    async def end(self, patience: float) -> None:
        """Close, and abort if what waits to be sent is not sent within `patience` seconds. Gone afterwards."""
        self.close()
        if not await self._gone_within(patience):
            self.abort()
            await self.lost.wait()

    async def end_after_client(self, patience: float) -> None:
        """Let the client close. Once it has everything and has not closed for `patience` seconds, we do."""
        while not await self._gone_within(patience):
            if not self.unsent():
                await self.end(patience)

    async def _gone_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.lost.wait()
        return self.lost.is_set()

    # --- what the kernel knows ----------------------------------------------------------------------------------

    def _socket(self) -> socket.socket:
        return cast(socket.socket, self._transport.get_extra_info("socket"))

    def unsent(self) -> int:
        """Bytes that the client's machine has not got yet."""
        if self._transport.is_closing():
            return 0
        try:
            queued = fcntl.ioctl(self._socket().fileno(), termios.TIOCOUTQ, b"\0" * 4)
        except OSError:
            return 0
        return int.from_bytes(queued, "little") + self._transport.get_write_buffer_size()

    def looks_dead(self, waited: float) -> bool:
        """Whether the client's machine owes us an acknowledgement for `waited` seconds, or closed while nobody read."""
        if self._transport.is_closing():
            return False
        try:
            info = _TCP_INFO.unpack(self._socket().getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
        except OSError:
            return True
        if self.reading_paused and info[0] != _ESTABLISHED:
            return True
        if info[_UNACKED] == 0:
            if not self.unsent():
                return False
            waited += _PROBES_APART  # the client does not read; its machine answers when the kernel asks for room
        return bool(info[_LAST_ACK] > waited * 1000)


def _discard(data: bytes) -> None:
    """Receive nothing more."""
