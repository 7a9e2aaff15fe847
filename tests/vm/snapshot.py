"""A guest that has booted, kept in the cache as a disk and a state: from it, each session's guest is up in seconds."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import cache
from tests.vm import machine
from tests.vm.guest import Guest, connect
from tests.vm.image import GuestImage
from tests.vm.machine import Machine

_SETTLED = """
systemctl is-system-running --wait >/dev/null
until docker version >/dev/null 2>&1; do sleep 1; done
systemctl --failed --no-legend
"""
_BOOT_LIMIT = 300.0


@dataclass(frozen=True)
class Snapshot:
    """An image's saved machine; its files exist once :func:`make_ready` has run."""

    image: GuestImage

    @property
    def folder(self) -> Path:
        """Named after the emulator and the machine that a state fits to."""
        key = hashlib.sha256("\n".join([machine.version(), *machine.shape()]).encode()).hexdigest()[:12]
        return self.image.folder / f"booted-{key}"

    @property
    def disk(self) -> Path:
        """What the boot wrote, on top of the image's disk; never written to again."""
        return self.folder / "disk.qcow2"

    @property
    def state(self) -> Path:
        """The machine's memory and devices."""
        return self.folder / "state"


def make_ready(snapshot: Snapshot, place: Path) -> None:
    """Boot the image once and save the machine, unless that has been done.  ``place``: a folder with a short path.

    Raises MachineError, GuestError.
    """
    with cache.alone(snapshot.folder):
        if snapshot.state.exists():
            return
        began = time.monotonic()
        for old in snapshot.image.folder.glob("booted-*"):
            shutil.rmtree(old)
        snapshot.folder.mkdir()
        draft = snapshot.folder / "draft"
        machine.make_overlay(snapshot.image.disk, "raw", snapshot.disk)
        with Machine(snapshot.image, snapshot.disk, place) as booting:
            with connect(snapshot.image, booting, place) as guest:
                failed = guest.run(_SETTLED, limit=_BOOT_LIMIT).strip()
                if failed:
                    raise machine.MachineError(f"units that failed at boot: {failed}")
                guest.run("sync; echo 3 >/proc/sys/vm/drop_caches")
            booting.save(draft)
        draft.rename(snapshot.state)
        print(f"vm: {snapshot.image.suite} was booted and saved in {time.monotonic() - began:.0f} s", flush=True)


@contextlib.contextmanager
def started(snapshot: Snapshot, parent: Path) -> Iterator[Guest]:
    """A guest of its own out of the snapshot; all of it is gone on exit.  ``parent``: a folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="vm-", dir=parent) as name:
        place = Path(name)
        machine.make_overlay(snapshot.disk, "qcow2", place / "disk.qcow2")
        running = Machine(snapshot.image, place / "disk.qcow2", place, snapshot.state)
        with running, connect(snapshot.image, running, place) as guest:
            guest.run(f"date --set=@{time.time():.3f} >/dev/null")  # its clock stood still
            yield guest
