"""crictl as a client of streams: Go's own SPDY and WebSocket, with pipes or a terminal on this side."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.conformance import tools
from tests.integration.server.serving import CrishimServer

TRANSPORTS = ("spdy", "websocket")
LIMIT = 120.0


@dataclass
class Crictl:
    """The program, for one server."""

    server: CrishimServer
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def command(self, verb: str, transport: str, *arguments: str) -> list[str]:
        """The command line of a verb that streams."""
        config = self.server.folder / "crictl.yaml"
        if not config.exists():  # others may be reading it
            config.write_text(f"runtime-endpoint: {self.server.endpoint}\nimage-endpoint: {self.server.endpoint}\n")
        return [str(tools.crictl_path()), f"--config={config}", verb, f"--transport={transport}", *arguments]

    def run(
        self, verb: str, transport: str, *arguments: str, data: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end; without `data` its input is empty."""
        command = self.command(verb, transport, *arguments)
        return subprocess.run(command, input=data or b"", capture_output=True, timeout=LIMIT, check=False)

    def start(
        self, verb: str, transport: str, *arguments: str, stdin: int = subprocess.PIPE, stdout: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        """Start it; it is killed at the test's end."""
        command = self.command(verb, transport, *arguments)
        self.running.append(subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE))
        return self.running[-1]

    def end(self) -> None:
        """Kill what was started."""
        for process in self.running:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()


class Terminal:
    """A crictl at a terminal of so many rows and columns; a context manager, which kills it and hangs up."""

    def __init__(self, command: Sequence[str], rows: int, columns: int) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, close_fds=True
        )
        os.close(slave)
        self.output = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def type(self, data: bytes) -> None:
        """Type keys."""
        os.write(self._master, data)

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size, and say so to the program."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def until(self, pattern: bytes, limit: float = 30.0) -> re.Match[bytes]:
        """Wait until the output holds this. Raises AssertionError with what it holds instead."""
        end = time.monotonic() + limit
        while not (found := re.search(pattern, self.output)):
            left = end - time.monotonic()
            assert left > 0, f"not within {limit:g} s: {pattern!r} in {self.output!r}"
            if select.select([self._master], [], [], min(left, 0.1))[0]:
                try:
                    self.output += os.read(self._master, 65536)
                except OSError as error:  # how a terminal says that nobody is left on its other side
                    raise AssertionError(f"ended without {pattern!r}: {self.output!r}") from error
        return found


def forwarded_port(process: subprocess.Popen[bytes]) -> int:
    """The local port that a `crictl port-forward POD 0:PORT` tells."""
    assert process.stdout is not None
    said = b""
    while not (found := re.search(rb"Forwarding from 127\.0\.0\.1:(\d+) ->", said)):
        line = process.stdout.readline()
        assert line, f"no port: {said!r} {process.stderr and process.stderr.read()!r}"
        said += line
    return int(found[1])
