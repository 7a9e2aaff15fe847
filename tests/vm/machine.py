"""The emulator: a running guest, its state in a file, and a guest out of that file.

qemu without hardware acceleration (many machines that run tests have none to give).  A guest's only network is its own
loopback and the emulator, which lets nothing out and passes one TCP port of 127.0.0.1 to the guest's sshd.
Rules: qemu(1) for the command line, qemu-qmp-ref(7) for the monitor.
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.vm.image import GuestImage

QEMU = "qemu-system-x86_64"
MEMORY, CPUS = 2048, 2
"""MiB and number; part of what a saved state fits to."""
_KERNEL_ARGUMENTS = (
    "root=/dev/vda rw console=ttyS0 quiet apparmor=1 security=apparmor mitigations=off net.ifnames=0 tsc=reliable"
    " nowatchdog"
)
_SAVE_LIMIT, _LOAD_LIMIT, _MONITOR_LIMIT = 300.0, 120.0, 60.0


class MachineError(Exception):
    """The emulator does not do what it is asked; the message ends on its words, or on the guest's console's."""


class Machine:
    """A guest on a disk (qcow2).  A context manager: powered on by entry, switched off and forgotten on exit."""

    def __init__(self, image: GuestImage, disk: Path, place: Path, state: Path | None = None) -> None:
        """``place``: an existing folder with a short path.  ``state``: go on where this one was saved."""
        self._image = image
        self._disk = disk
        self._place = place
        self._state = state
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._monitor: _Monitor | None = None

    def __enter__(self) -> Self:
        words = self._place / "qemu.log"
        (self._place / "monitor").unlink(missing_ok=True)
        with words.open("wb") as log:
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self._monitor = _Monitor(self._connect())
            if self._state:
                self._wait("query-status", {"paused", "running"}, _LOAD_LIMIT)
                self._monitor.execute("cont")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._end()

    @property
    def alive(self) -> bool:
        """Whether the emulator runs."""
        return self._process is not None and self._process.poll() is None

    def last_words(self) -> str:
        """The end of what the emulator and the guest's console said."""
        texts = [(self._place / name).read_text(errors="replace").splitlines()[-4:] for name in ("qemu.log", "console")]
        return " | ".join(texts[0] + texts[1]) or "(nothing)"

    def save(self, target: Path) -> None:
        """Stop the guest for good and write its state; the disk is then as the state expects it.

        Raises MachineError.
        """
        assert self._monitor is not None
        self._monitor.execute("stop")
        self._monitor.execute("migrate-set-parameters", {"max-bandwidth": 1 << 34})
        self._monitor.execute("migrate", {"uri": f"exec:exec cat >{shlex.quote(str(target))}"})
        self._wait("query-migrate", {"completed"}, _SAVE_LIMIT)
        self._monitor.execute("quit")
        assert self._process is not None
        self._process.wait(_MONITOR_LIMIT)

    def _wait(self, query: str, wanted: set[str], limit: float) -> None:
        assert self._monitor is not None
        deadline = time.monotonic() + limit
        while (status := self._monitor.execute(query).get("status")) not in wanted:
            if status == "failed" or time.monotonic() > deadline or not self.alive:
                raise MachineError(f"{query} tells {status!r}: {self.last_words()}")
            time.sleep(0.05)

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + _MONITOR_LIMIT
        connection = socket.socket(socket.AF_UNIX)
        while True:
            try:
                connection.connect(str(self._place / "monitor"))
            except OSError:
                if not self.alive or time.monotonic() > deadline:
                    connection.close()
                    raise MachineError(f"{QEMU} does not start: {self.last_words()}") from None
                time.sleep(0.02)
            else:
                connection.settimeout(_MONITOR_LIMIT)
                return connection

    def _end(self) -> None:
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
        if self._process is not None:
            self._process.kill()  # the disk is thrown away
            self._process.wait()
            self._process = None

    def _command(self) -> list[str]:
        files = {"monitor": self._place / "monitor", "console": self._place / "console"}
        files["console"].touch()
        return [
            *shape(),
            *("-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd), "-append", _KERNEL_ARGUMENTS),
            *("-drive", f"file={self._disk},if=none,id=disk,format=qcow2,cache=unsafe,discard=unmap"),
            *("-netdev", f"user,id=net,{_NETWORK},hostfwd=tcp:127.0.0.1:{self.port}-:22"),
            *("-chardev", f"file,id=console,path={files['console']}"),
            *("-qmp", f"unix:{files['monitor']},server=on,wait=off"),
            *(("-incoming", f"exec:exec cat {shlex.quote(str(self._state))}") if self._state else ()),
        ]


_NETWORK = "restrict=on,ipv6=off,net=192.0.2.0/24,host=192.0.2.2,dhcpstart=192.0.2.15"


def shape() -> list[str]:
    """The command line as far as a saved state depends on it."""
    devices = ["virtio-blk-pci,drive=disk", "virtio-net-pci,netdev=net,romfile=", "virtio-rng-pci", "vmgenid,guid=auto"]
    return [
        *(QEMU, "-machine", "q35,hpet=off", "-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max"),
        *("-smp", str(CPUS), "-m", str(MEMORY), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-serial", "chardev:console"),
        *(word for device in devices for word in ("-device", device)),
    ]


def version() -> str:
    """The emulator's version line.  Raises MachineError where it is not installed."""
    try:
        done = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MachineError(f"{QEMU} cannot be run: {error}") from error
    return done.stdout.splitlines()[0]


def make_overlay(disk: Path, disk_format: str, overlay: Path) -> None:
    """A disk that reads from ``disk`` (``raw``, ``qcow2``) and keeps what is written.  Raises MachineError."""
    _qemu_img(["create", "-q", "-f", "qcow2", "-b", str(disk), "-F", disk_format, str(overlay)])


def _qemu_img(arguments: Sequence[str]) -> None:
    done = subprocess.run(["qemu-img", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(f"qemu-img {arguments[0]} failed: {done.stderr.strip()}")


class _Monitor:
    """A connection to the emulator's monitor (QMP): one command at a time, its events passed over."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._lines.readline()  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """Raises MachineError for an error answer and when the emulator has ended."""
        request = {"execute": command, "arguments": arguments or {}}
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        while line := self._lines.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise MachineError(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return dict(answer["return"])
        raise MachineError(f"{command}: the emulator has ended")

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
