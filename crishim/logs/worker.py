"""The writer's process: `python -m crishim.logs.worker DESCRIPTOR LOCK`, started by `crishim.logs.process`.

Orders come in and answers go out through a socket, a JSON value a line. When the server's end of it closes, for
whatever reason, the process ends with the block that it is at. The lock file keeps the next server's writer waiting
until then: two would write each line twice. Signals to end are left to the server.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time

from crishim.logs.desk import Desk
from crishim.logs.inotify import Inotify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_REST, _MOST_REST, _REST_FACTOR = 0.003, 0.025, 8
"""Between two looks at what inotify saw: at least and at most so many seconds, and in between so many times what the
look before took. Many small writes of the engine become one block that way."""
_LOCK_PATIENCE = 30.0


class Worker:
    """Runs a desk."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._inotify = Inotify()
        self._desk = Desk(self._inotify)
        self._received = b""
        self._orders = select.poll()
        self._orders.register(control, select.POLLIN)
        self._everything = select.poll()
        self._everything.register(control, select.POLLIN)
        self._everything.register(self._inotify.fd, select.POLLIN)

    def run(self) -> None:
        """Work until the server closes the socket."""
        desk = self._desk
        rest_until = 0.0
        housekeeping = 0.0
        while True:
            began = time.monotonic()
            resting = began < rest_until
            if desk.busy:
                wait: float | None = 0.0
            elif resting:
                wait = rest_until - began
            else:
                wait = desk.patience
            poll = self._orders if resting else self._everything
            ready = {fd for fd, _ in poll.poll(None if wait is None else wait * 1000)}
            began = time.monotonic()
            if self._control.fileno() in ready and not self._receive():
                break
            if self._inotify.fd in ready:
                desk.saw(self._inotify.read())
            if desk.busy:
                desk.round()
                now = time.monotonic()
                if not desk.busy:
                    rest_until = now + min(max(_REST, _REST_FACTOR * (now - began)), _MOST_REST)
            if desk.patience is not None and began >= housekeeping:
                desk.housekeep()
                housekeeping = began + desk.patience if desk.patience else 0.0
            self._send()
        desk.close()
        self._send()

    def _receive(self) -> bool:
        try:
            data = self._control.recv(1 << 16)
        except ConnectionError:
            return False
        if not data:
            return False
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._desk.order(json.loads(line))
        return True

    def _send(self) -> None:
        told = self._desk.take_told()
        if told:
            try:
                self._control.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in told))
            except ConnectionError:
                return  # the next read tells that the server has gone


def main(arguments: Sequence[str]) -> int:
    """Entry point."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o022)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with socket.socket(fileno=int(arguments[0])) as control:
        lock = os.open(arguments[1], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        end = time.monotonic() + _LOCK_PATIENCE
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno != errno.EWOULDBLOCK or time.monotonic() > end:
                    sys.stderr.write(f"crishim: another writer of logs holds {arguments[1]}\n")
                    return 1
                time.sleep(0.005)
        gc.freeze()
        Worker(control).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
