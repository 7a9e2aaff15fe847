"""The steps of a front's answer: files with shifted owners, in mounts that nobody else sees."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crishim.front.install.files import TwinFiles, program_bytes
from crishim.front.twins import TwinConf
from crishim.front.wire import Answer, encode_answer

FIRST = 100_000
"""What the user namespace's root is outside."""


@pytest.fixture
def userns(world_folder: Path) -> Iterator[Path]:
    """A user namespace whose 0 is FIRST, held by a process."""
    holder = subprocess.Popen(["unshare", "--user", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.write(b"x")
    holder.stdin.flush()
    assert holder.stdout.read(1) == b"x", "the namespace is there"
    for kind in ("uid_map", "gid_map"):
        Path(f"/proc/{holder.pid}/{kind}").write_text(f"0 {FIRST} 65536\n")
    yield Path(f"/proc/{holder.pid}/ns/user")
    holder.stdin.close()
    holder.wait(10)


@pytest.fixture
def place(world_folder: Path) -> Iterator[Path]:
    """A short path on a disk, and after the test nothing is mounted there."""
    folder = Path(tempfile.mkdtemp(prefix="steps", dir=world_folder / "tmp"))
    folder.chmod(0o711)  # users of the namespace pass through it
    yield folder
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    shutil.rmtree(folder)


def run(place: Path, script: str, steps: tuple[str, ...]) -> tuple[int, str]:
    """Exit status and output of a front, whose runtime is a script, that is told to take these steps."""
    runtime, desk = place / "runc", place / "front.sock"
    runtime.write_text(f"#!/bin/sh\n{script}\n")
    runtime.chmod(0o755)
    twin = TwinFiles(place / "crishim-runc")
    twin.place(program_bytes(), TwinConf(str(runtime), str(desk)))
    (place / "config.json").write_text("{}")
    with socket.socket(socket.AF_UNIX) as listening:
        desk.unlink(missing_ok=True)
        listening.bind(str(desk))
        listening.listen()

        def answer() -> None:
            with listening.accept()[0] as caller, caller.makefile("rb") as stream:
                stream.read(4)
                for _ in range(4):
                    stream.read(struct.unpack(">I", stream.read(4))[0])
                caller.sendall(encode_answer(Answer(b'{"new": 1}', steps)))

        thread = threading.Thread(target=answer)
        thread.start()
        command = [str(twin.program), "create", "--bundle", str(place), "4f"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        thread.join()
    return done.returncode, done.stdout + done.stderr


def test_an_overlay_of_shifted_layers(place: Path, userns: Path) -> None:
    for name in ("lower", "up/diff", "up/work", "root", "points", "volume"):
        (place / name).mkdir(parents=True)
    (place / "lower" / "old").write_text("old")
    (place / "volume" / "inside").write_text("v")
    os.chown(place / "lower" / "old", 7, 8)
    os.chown(place / "up" / "diff", FIRST, FIRST)
    points, root = place / "points", place / "root"
    steps = (
        *("tmpfs", str(points), "userns", str(userns)),
        *("folder", f"{points}/0", "layer", str(place / "lower"), f"{points}/0"),
        # The upper layer as it is: root could not make anything in a shifted one, and the overlay would be read-only.
        *("overlay", f"lowerdir={points}/0,upperdir={place}/up/diff,workdir={place}/up/work", str(root)),
        *("folder", f"{points}/v", "tree", str(place / "volume"), f"{points}/v"),
        *("file", f"{points}/f", "tree", str(place / "volume" / "inside"), f"{points}/f"),
    )
    shown = f"stat -c '%n %u:%g' {root}/old {points}/v/inside {points}/f"
    script = f"{shown}; cat {place}/config.json; echo; setpriv --reuid {FIRST} --regid {FIRST} --clear-groups "
    script += f"sh -c 'echo new > {root}/new; echo more >> {points}/v/made'; stat -c '%n %u' {root}/new"
    status, printed = run(place, script, steps)
    assert (status, printed.splitlines()) == (
        0,
        [
            f"{root}/old {FIRST + 7}:{FIRST + 8}",
            f"{points}/v/inside {FIRST}:{FIRST}",
            f"{points}/f {FIRST}:{FIRST}",
            '{"new": 1}',
            f"{root}/new {FIRST}",
        ],
    )
    # Outside: nothing mounted, and what was made in a volume belongs to root.
    assert os.listdir(root) == os.listdir(points) == []
    assert (place / "up/diff/new").stat().st_uid == FIRST
    assert (place / "volume/made").stat().st_uid == 0
    assert (place / "lower/old").stat().st_uid == 7


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (("dance", "x"), "a step that this front does not know (run crishim install-runtime): dance"),
        (("folder", "PLACE/a", "folder", "PLACE/a"), "step folder of PLACE/a: error 17"),
        (("userns", "PLACE/no"), "step userns of PLACE/no: no such file"),
        (("layer", "PLACE", "PLACE"), "comes before the user namespace"),
        (("tmpfs",), "has no end"),
        (("userns", "USERNS", "layer", "PLACE/no", "PLACE"), "cannot take the files at PLACE/no"),
        (("userns", "USERNS", "tree", "/proc", "PLACE"), "cannot shift the owners of /proc"),
        (("userns", "USERNS", "layer", "PLACE", "PLACE/no"), "cannot mount at PLACE/no"),
        (("overlay", "lowerdir=/no", "PLACE"), "step overlay of PLACE"),
    ],
)
def test_a_step_that_fails_is_named_and_nothing_is_changed(
    place: Path, userns: Path, steps: tuple[str, ...], words: str
) -> None:
    real = tuple(step.replace("PLACE", str(place)).replace("USERNS", str(userns)) for step in steps)
    status, printed = run(place, "echo ran", real)
    assert status == 125
    assert words.replace("PLACE", str(place)) in json.loads(printed)["msg"]
    assert (place / "config.json").read_text() == "{}"
