"""Processes and pods in memory, for sessions to stream: a program is a coroutine with the streams of a process."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable

from crishim.errors import CRIError, InvalidArgument
from crishim.model.streams import (
    OutputStream,
    PreparedForward,
    PreparedProcess,
    ProcessStreams,
    TerminalSize,
    WantedStreams,
)

PIPE = 64 << 10
"""Bytes that a pipe holds."""


class Pipe:
    """Bounded like a pipe of the kernel."""

    def __init__(self) -> None:
        self._items: deque[tuple[OutputStream, bytes]] = deque()
        self._size = 0
        self._ended = False
        self._news = asyncio.Condition()

    async def put(self, data: bytes, stream: OutputStream = OutputStream.STDOUT) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self._size < PIPE or self._ended)
            if not self._ended:
                self._items.append((stream, data))
                self._size += len(data)
                self._news.notify_all()

    async def end(self) -> None:
        async with self._news:
            self._ended = True
            self._news.notify_all()

    async def get(self) -> tuple[OutputStream, bytes] | None:
        async with self._news:
            await self._news.wait_for(lambda: bool(self._items) or self._ended)
            if not self._items:
                return None
            item = self._items.popleft()
            self._size -= len(item[1])
            self._news.notify_all()
            return item


class Streams(ProcessStreams):
    """A running program's streams, and what was done to it."""

    def __init__(self, program: Callable[[Streams], Awaitable[int]], size: TerminalSize | None) -> None:
        self.stdin, self.stdout = Pipe(), Pipe()
        self.sizes: list[TerminalSize] = [size] if size is not None else []
        self.resized = asyncio.Event()
        self.closed = asyncio.Event()
        self.task = asyncio.create_task(self._run(program), name="fake program")

    async def _run(self, program: Callable[[Streams], Awaitable[int]]) -> int:
        try:
            return await program(self)
        finally:
            await self.stdout.end()
            await self.stdin.end()

    async def read(self) -> tuple[OutputStream, bytes] | None:
        return await self.stdout.get()

    async def write(self, data: bytes | memoryview) -> None:
        await self.stdin.put(bytes(data))

    async def close_stdin(self) -> None:
        await self.stdin.end()

    async def resize(self, size: TerminalSize) -> None:
        self.sizes.append(size)
        self.resized.set()

    async def exit_code(self) -> int:
        return await asyncio.shield(self.task)

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))
        await self.stdout.end()
        await self.stdin.end()
        self.closed.set()

    async def input(self) -> bytes | None:
        """For programs: the next input."""
        item = await self.stdin.get()
        return None if item is None else item[1]

    async def say(self, data: bytes, stream: OutputStream = OutputStream.STDOUT) -> None:
        """For programs: print."""
        await self.stdout.put(data, stream)


Program = Callable[[Streams], Awaitable[int]]


class Process(PreparedProcess):
    """A program that waits for its client."""

    def __init__(
        self,
        program: Program,
        *,
        tty: bool = False,
        stdin: bool = True,
        stdout: bool = True,
        stderr: bool = True,
        error: CRIError | None = None,
    ) -> None:
        self.container_id = "c0ffee"
        self.wanted = WantedStreams(tty=tty, stdin=stdin, stdout=stdout, stderr=stderr and not tty)
        self._program = program
        self._error = error
        self.started: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()

    async def start(self, size: TerminalSize | None) -> ProcessStreams:
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        streams = Streams(self._program, size)
        self.started.set_result(streams)
        return streams


async def cat(streams: Streams) -> int:
    """Input to output."""
    while (data := await streams.input()) is not None:
        await streams.say(data)
    return 0


def says(text: bytes, *, stderr: bytes = b"", code: int = 0) -> Program:
    """Prints and ends."""

    async def program(streams: Streams) -> int:
        if text:
            await streams.say(text)
        if stderr:
            await streams.say(stderr, OutputStream.STDERR)
        return code

    return program


def pours(size: int, piece: int = 32 << 10) -> Program:
    """Prints so many bytes."""

    async def program(streams: Streams) -> int:
        block = bytes(range(256)) * (piece // 256)
        for at in range(0, size, piece):
            await streams.say(block[: size - at])
        return 0

    return program


async def counts(streams: Streams) -> int:
    """Prints how many bytes of input there were."""
    total = 0
    while (data := await streams.input()) is not None:
        total += len(data)
    await streams.say(b"%d" % total)
    return 0


async def sleeps(streams: Streams) -> int:
    """Until it is killed."""
    await asyncio.Event().wait()
    return 0


class Forward(PreparedForward):
    """A pod whose ports are this machine's loopback."""

    def __init__(self, ports: tuple[int, ...] = ()) -> None:
        self.sandbox_id = "f00d"
        self.ports = ports
        self.over = asyncio.Event()

    async def connect(self, port: int) -> socket.socket:
        found = socket.socket()
        found.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(found, ("127.0.0.1", port))
        except OSError as error:
            found.close()
            raise InvalidArgument(f"port {port} of the pod: {error.strerror}") from error
        return found

    async def ended(self) -> None:
        await self.over.wait()
