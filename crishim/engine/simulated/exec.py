"""Simulated processes with streams: exec, and attach to a container's own.

What a process does is in `program`'s table; besides, for those that have streams:

| command line | behaviour |
|---|---|
| `cat` | prints what it reads; exits 0 at the end of its input |
| `echo WORDS` | prints them and exits 0 |
| `stty size` | prints its terminal's rows and columns, if it was given a size, and exits 0 |

A container whose command is `cat` does the same for those attached to it: each sees all.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections import deque
from collections.abc import Callable, Sequence

from crishim.engine.simulated.clock import Clock, Timer
from crishim.engine.simulated.container import SimulatedContainer
from crishim.engine.simulated.gate import Gate
from crishim.engine.simulated.program import parse_program
from crishim.engine.streams import EngineExec
from crishim.errors import EngineConflict, ExecFailed
from crishim.model.streams import OutputStream, ProcessStreams, TerminalSize, WantedStreams

_ROOM = 64 << 10
"""Bytes of output that wait to be read before a writer is held up, as in a pipe."""
_KILLED = 137
_HUNG_UP = 129


class SimulatedStreams(ProcessStreams):
    """Output that waits to be read, and where input goes."""

    def __init__(self, gate: Gate, container: SimulatedContainer, wanted: WantedStreams) -> None:
        self.container_id = container.id
        self.size: TerminalSize | None = None
        """The terminal's, as last given."""
        self._gate = gate
        self._container = container
        self._wanted = wanted
        self._items: deque[bytes] = deque()
        self._waiting = 0
        self._input_open = wanted.stdin
        self._output_open = True
        self._changed: set[asyncio.Future[None]] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.container_id[:13]}: {self._waiting} bytes to be read>"

    def print(self, data: bytes) -> None:
        """Data comes out, if there is anyone for whom."""
        if data and self._output_open and self._wanted.stdout:
            self._items.append(data)
            self._waiting += len(data)
        self._change()

    def end_output(self) -> None:
        """Nothing more comes."""
        self._output_open = False
        self._change()

    def _change(self) -> None:
        for waiter in self._changed:
            if not waiter.done():
                waiter.set_result(None)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._gate.check()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._changed.add(waiter)
            try:
                await self._gate.hold(waiter)
            finally:
                self._changed.discard(waiter)

    async def read(self) -> tuple[OutputStream, bytes] | None:
        await self._until(lambda: bool(self._items) or not self._output_open)
        if not self._items:
            return None
        data = self._items.popleft()
        self._waiting -= len(data)
        self._change()
        return OutputStream.STDOUT, data

    async def write(self, data: bytes | memoryview) -> None:
        if self._input_open and self._output_open:
            self.take(bytes(data))
            await self._until(lambda: self._waiting < _ROOM or not self._output_open)

    def take(self, data: bytes) -> None:
        """The process reads this."""

    async def resize(self, size: TerminalSize) -> None:
        await self._gate.answer("resize", lambda: setattr(self, "size", size), size)


class SimulatedExec(SimulatedStreams, EngineExec):
    """An exec. `processes` holds those that run, for the container's end."""

    def __init__(
        self,
        gate: Gate,
        clock: Clock,
        container: SimulatedContainer,
        command: Sequence[str],
        wanted: WantedStreams,
        missing: tuple[str, ...],
    ) -> None:
        super().__init__(gate, container, wanted)
        self._clock = clock
        self._command = tuple(command)
        self._program = parse_program(command, missing)
        self._name = posixpath.basename(command[0])
        self._code: int | None = None
        self._timer: Timer | None = None

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self in self._container.execs

    async def start(self, size: TerminalSize | None = None) -> None:
        await self._gate.answer("exec_start", lambda: self._begin(size), self._command)

    def _begin(self, size: TerminalSize | None) -> None:
        need_running(self._container)
        self.size = size if self._wanted.tty else None
        self._container.execs[self] = None
        if self._program.missing:
            self.print(self._refusal().encode() + b"\r\n")
            self._end(None)
        elif self._name == "echo":
            self.print(" ".join(self._command[1:]).encode() + b"\n")
            self._end(0)
        elif self._command == ("stty", "size") and self.size is not None:
            self.print(f"{self.size.height} {self.size.width}\r\n".encode())
            self._end(0)
        elif self._program.ends_after == 0 or (self._name == "cat" and not self._wanted.stdin):
            self._end(self._program.exit_code)
        elif self._program.ends_after is not None:
            self._timer = self._clock.call_later(self._program.ends_after, lambda: self._end(self._program.exit_code))

    def _refusal(self) -> str:
        return f'exec failed: unable to start container process: exec: "{self._command[0]}": no such file or directory'

    def _end(self, code: int | None) -> None:
        if self.running:
            del self._container.execs[self]
            self._code = code
            if self._timer is not None:
                self._timer.cancel()
            self.end_output()

    def end_with_container(self) -> None:
        """The container's first process has ended."""
        self._end(_KILLED)

    async def up(self) -> None:
        await self._gate.answer("exec_inspect", lambda: None)
        if self._program.missing:
            while await self.read() is not None:
                pass
            raise ExecFailed(self._refusal(), container=self.container_id)

    async def exit_code(self) -> int:
        await self._until(lambda: not self.running)
        await self._gate.answer("exec_inspect", lambda: None)
        if self._code is None:
            raise ExecFailed(self._refusal(), container=self.container_id)
        return self._code

    def take(self, data: bytes) -> None:
        """`cat` prints it."""
        if self._name == "cat":
            self.print(data)

    async def close_stdin(self) -> None:
        if not self._wanted.tty and self._input_open:
            self._input_open = False
            if self._name == "cat":
                self._end(0)

    async def kill(self) -> bool:
        def end() -> bool:
            running = self.running
            self._end(_KILLED)
            return running

        return await self._gate.answer("exec_kill", end)

    async def close(self) -> None:
        self._items.clear()
        self._waiting = 0
        self._wanted = WantedStreams(tty=self._wanted.tty, stdin=self._wanted.stdin, stdout=False, stderr=False)
        if self._wanted.tty:
            self._end(_HUNG_UP)
        else:
            await self.close_stdin()


class SimulatedAttachment(SimulatedStreams):
    """A connection to a container's own streams."""

    def __init__(
        self, gate: Gate, container: SimulatedContainer, wanted: WantedStreams, *, end_input: Callable[[], None] | None
    ) -> None:
        """`end_input`: what the end of its input does to the container; None: nothing."""
        super().__init__(gate, container, wanted)
        self._end_input = end_input
        container.attached[self] = None

    def take(self, data: bytes) -> None:
        """A container's `cat` prints it to all."""
        if self._container.echoes:
            for other in tuple(self._container.attached):
                other.print(data)

    async def close_stdin(self) -> None:
        if not self._wanted.tty and self._input_open:
            self._input_open = False
            if self._end_input is not None:
                self._end_input()

    async def exit_code(self) -> int:
        await self._until(lambda: not self._container.running)
        return self._container.exit_code

    async def close(self) -> None:
        self._container.attached.pop(self, None)
        self._items.clear()
        await self.close_stdin()
        self.end_output()


def need_running(container: SimulatedContainer) -> None:
    """Raise EngineConflict for a container that does not run."""
    if not container.running:
        raise EngineConflict(f"container {container.id} is not running", container=container.id)
