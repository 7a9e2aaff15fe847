"""Commands, files and sockets in a guest, by ssh."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tests.vm.image import GuestImage
from tests.vm.machine import Machine

Value = TypeVar("Value")
CONNECT_LIMIT = 240.0
"""Seconds until sshd must answer: a boot takes 30 to 90."""
COMMAND_LIMIT = 180.0
_POLL = 0.25


class GuestError(Exception):
    """A command failed in the guest, or it cannot be reached; the message ends on its words."""


class Guest:
    """A guest that can be reached; made by :func:`connect`."""

    def __init__(self, machine: Machine, ssh: list[str]) -> None:
        self._machine = machine
        self._ssh = ssh

    def run(self, command: str, *, data: bytes = b"", limit: float = COMMAND_LIMIT, check: bool = True) -> str:
        """Run a bash command as root; returns what it printed to standard output.

        ``data``: its standard input.  ``check``: raise GuestError unless it ends with status 0 within ``limit``
        seconds; without, its errors' words follow its output.
        """
        try:
            done = subprocess.run([*self._ssh, command], input=data, capture_output=True, check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            raise GuestError(f"{command[:200]}: not done after {limit:.0f} s") from None
        output, words = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if not check:
            return output + words
        if done.returncode != 0:
            raise GuestError(f"{command[:200]}: status {done.returncode}: {(output + words).strip()[-2000:]}")
        return output

    def read(self, path: str) -> str:
        """A file's text, without white space around it."""
        return self.run(f"cat '{path}'").strip()

    def write(self, path: str, text: str) -> None:
        """A file with this text; its folder is made."""
        self.run(f"mkdir -p \"$(dirname '{path}')\" && cat >'{path}'", data=text.encode())

    def put(self, source: Path, target: str) -> None:
        """Copy a file or folder to the path ``target``."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
            tar.add(source, arcname=".")
        if source.is_dir():
            self.run(f"mkdir -p '{target}' && tar -C '{target}' --no-same-owner -xf -", data=archive.getvalue())
        else:
            unpack = f"mkdir -p \"$(dirname '{target}')\" && cat >'{target}' && chmod {source.stat().st_mode & 0o777:o}"
            self.run(f"{unpack} '{target}'", data=source.read_bytes())

    def forward(self, guest_socket: str, local_socket: Path) -> None:
        """Let a local unix socket lead to one in the guest for as long as the connection lives."""
        options = ["-O", "forward", "-L", f"{local_socket}:{guest_socket}"]
        done = subprocess.run([*self._ssh[:-1], *options, self._ssh[-1]], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise GuestError(f"cannot forward {guest_socket}: {done.stderr.strip()}")

    def last_words(self) -> str:
        """The end of what the emulator and the console said."""
        return self._machine.last_words()


def wait_for(ask: Callable[[], Value], good: Callable[[Value], bool] = bool, limit: float = 120.0) -> Value:
    """Ask until the answer is good and return it.  Fails with the last answer after ``limit`` seconds."""
    deadline = time.monotonic() + limit
    while not good(answer := ask()):
        assert time.monotonic() < deadline, f"still not after {limit:.0f} s: {answer}"
        time.sleep(_POLL)
    return answer


@contextlib.contextmanager
def connect(image: GuestImage, machine: Machine, place: Path) -> Iterator[Guest]:
    """Wait for sshd and keep one connection, which all commands share.  ``place``: a folder with a short path.

    Raises GuestError.
    """
    control = place / "ssh"
    ssh = ["ssh", "-q", "-i", str(image.ssh_key), "-p", str(machine.port), "-o", "BatchMode=yes", "-F", "none"]
    ssh += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", f"ControlPath={control}"]
    ssh += ["-o", "StreamLocalBindUnlink=yes", "root@127.0.0.1"]
    with _master(ssh, machine):
        yield Guest(machine, ssh)


@contextlib.contextmanager
def _master(ssh: list[str], machine: Machine) -> Iterator[None]:
    """The process that holds the connection; started again until the guest answers."""
    deadline = time.monotonic() + CONNECT_LIMIT
    command = [*ssh[:-1], "-M", "-N", "-o", "ConnectTimeout=20", ssh[-1]]
    check = [*ssh[:-1], "-O", "check", ssh[-1]]
    master = _quiet(command)
    try:
        while subprocess.run(check, capture_output=True, check=False).returncode != 0:
            if not machine.alive or time.monotonic() > deadline:
                raise GuestError(f"the guest is not reached: {machine.last_words()}")
            time.sleep(_POLL)
            if master.poll() is not None:
                master = _quiet(command)
        yield
    finally:
        master.terminate()
        master.wait()


def _quiet(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
