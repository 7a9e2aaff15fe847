"""The front's program: what it asks, what it becomes, and that whatever goes wrong is an error in words."""

from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from crishim.front.program import build
from crishim.front.twins import TwinConf, marker_path
from crishim.front.wire import LARGEST, Answer, Question, encode_answer, encode_question, encode_refusal

NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
EMULATORS = {"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}
ID = "4f" * 32
PATIENCE = 20.0

Talk = Callable[[socket.socket], None]


@dataclass
class Fronted:
    """A front whose runtime shows how it was called, and a desk that says what a test wants."""

    folder: Path
    command: list[str]
    asked: list[bytes] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def desk(self) -> Path:
        return self.folder / "front.sock"

    @property
    def bundle(self) -> Path:
        return self.folder / "bundle"

    @property
    def config(self) -> Path:
        return self.bundle / "config.json"

    @property
    def log(self) -> Path:
        return self.folder / "log.json"

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*self.command, *arguments], stdout=pipe, stderr=pipe, text=True, **options)

    def call(self, *arguments: str, **options: Any) -> tuple[int, str]:
        """Exit status and what was printed."""
        front = self.start(*arguments, **options)
        out, errors = front.communicate(timeout=PATIENCE)
        return front.returncode, out + errors

    def create(self) -> tuple[int, str]:
        return self.call("--log", str(self.log), "--log-format", "json", "create", "--bundle", str(self.bundle), ID)

    def serve(self, *talks: Talk, backlog: int = 8) -> socket.socket:
        """Listen, and have one of `talks` with each that comes, in order."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.desk))
        listening.listen(backlog)

        def work() -> None:
            with listening:
                for talk in talks:
                    with listening.accept()[0] as caller:
                        talk(caller)

        if talks:
            self.threads.append(threading.Thread(target=work))
            self.threads[-1].start()
        return listening

    def answering(self, reply: bytes) -> Talk:
        """Take the question whole, then say this and close."""

        def talk(caller: socket.socket) -> None:
            with caller.makefile("rb") as stream:
                question = stream.read(4)
                for _ in range(4):
                    question += (length := stream.read(4)) + stream.read(struct.unpack(">I", length)[0])
            self.asked.append(question)
            caller.sendall(reply)

        return talk

    def told(self) -> str:
        """What the engine would read in the log: the message of its one line."""
        (line,) = self.log.read_text().splitlines()
        entry = json.loads(line)
        assert entry["level"] == "error"
        age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(entry["time"])
        assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1)
        assert entry["msg"].startswith("crishim front: ")
        return str(entry["msg"].removeprefix("crishim front: "))

    def assert_untouched(self) -> None:
        assert self.config.read_bytes() == b'{"as": "it was"}'
        assert os.listdir(self.bundle) == ["config.json"]


@pytest.fixture
def fronted(request: pytest.FixtureRequest) -> Iterator[Fronted]:
    """Of the machine's own architecture, or of the other one where an emulator is."""
    arch = getattr(request, "param", NATIVE)
    folder = Path(tempfile.mkdtemp(prefix="front"))  # a short path, for the socket
    program, runtime = folder / "crishim-runc", folder / "runc"
    shutil.copy(build.elf_path(arch), program)
    program.chmod(0o755)
    runtime.write_text('#!/bin/sh\nprintf "%s|" "$@"\nprintf "%s" "$MARK"\nexit 3\n')
    runtime.chmod(0o755)
    command = [str(program)]
    if arch != NATIVE:
        emulator = shutil.which(EMULATORS[arch])
        if emulator is None:
            pytest.skip(f"{EMULATORS[arch]} is missing (package qemu-user-static)")
        command.insert(0, emulator)
    made = Fronted(folder, command)
    (folder / "crishim-runc.conf").write_text(TwinConf(str(runtime), str(made.desk)).text())
    made.bundle.mkdir()
    made.config.write_bytes(b'{"as": "it was"}')
    yield made
    for thread in made.threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "nobody asked"
    shutil.rmtree(folder)


both = pytest.mark.parametrize("fronted", ["amd64", "arm64"], indirect=True)


# --- what it becomes


@both
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--version"],
        ["--root", "create", "state", ID],
        ["--log", "create", "--log-format", "json", "--systemd-cgroup", "start", ID],
        ["--debug", "--root=/x", "kill", "--all", ID, "create"],
        ["delete", "--force", ID],
        ["features"],
        ["exec", "--process", "/nowhere", "--detach", ID],
        ["exec", ID, "create", "-b", "/nowhere"],
        ["update", "--resources", "-", ID],
    ],
)
def test_all_that_makes_no_container_becomes_the_runtime(fronted: Fronted, arguments: list[str]) -> None:
    status, printed = fronted.call(*arguments, env={"MARK": "é \n"})
    assert (status, printed) == (3, "".join(f"{word}|" for word in arguments or [""]) + "é \n")


def test_the_runtimes_own_arguments_come_first(fronted: Fronted) -> None:
    conf = TwinConf(str(fronted.folder / "runc"), str(fronted.desk), ("--debug", "--root", "/a b"))
    (fronted.folder / "crishim-runc.conf").write_text(conf.text())
    assert fronted.call("state", ID) == (3, f"--debug|--root|/a b|state|{ID}|")


# --- what it asks


@both
@pytest.mark.parametrize("verb", ["create", "run", "restore"])
@pytest.mark.parametrize(
    "options",
    [
        ["--bundle", "BUNDLE"],
        ["-b", "BUNDLE"],
        ["--bundle=BUNDLE"],
        ["-bundle", "BUNDLE", "--pid-file", "create"],
        ["--console-socket", "/s", "-b=BUNDLE"],
    ],
)
def test_a_container_is_made_of_the_answer(fronted: Fronted, verb: str, options: list[str]) -> None:
    answer = Answer(b'{"another": "\\u00e9", "n": ' + b"1" * 300_000 + b"}")
    fronted.serve(fronted.answering(encode_answer(answer)))
    arguments = [word.replace("BUNDLE", str(fronted.bundle)) for word in options]
    line = ["--root", "/r", "--log", str(fronted.log), "--systemd-cgroup", verb, *arguments, ID]
    assert fronted.call(*line) == (3, "".join(f"{word}|" for word in line))
    assert fronted.asked == [encode_question(Question("create", ID, str(fronted.bundle), b'{"as": "it was"}'))]
    assert fronted.config.read_bytes() == answer.config
    assert os.listdir(fronted.bundle) == ["config.json"]
    assert not fronted.log.exists()


def test_without_an_option_the_bundle_is_the_folder(fronted: Fronted) -> None:
    fronted.serve(fronted.answering(encode_answer(Answer(b"{}"))))
    assert fronted.call("create", ID, cwd=fronted.bundle) == (3, f"create|{ID}|")
    assert fronted.config.read_bytes() == b"{}"


@both
@pytest.mark.parametrize("written", [["--process", "FILE"], ["-p", "FILE"], ["--process=FILE"]])
def test_a_process_is_made_of_the_answer_where_the_container_is_marked(fronted: Fronted, written: list[str]) -> None:
    file = fronted.folder / "process"
    file.write_bytes(b'{"args": []}')
    arguments = ["exec", *(word.replace("FILE", str(file)) for word in written), "--detach", ID]
    assert fronted.call(*arguments)[0] == 3
    assert file.read_bytes() == b'{"args": []}'
    marker = marker_path(fronted.desk, ID)
    marker.parent.mkdir(parents=True)
    marker.touch()
    fronted.serve(fronted.answering(encode_answer(Answer(b'{"args": ["x"]}'))))
    assert fronted.call(*arguments)[0] == 3
    assert fronted.asked == [encode_question(Question("exec", ID, "", b'{"args": []}'))]
    assert file.read_bytes() == b'{"args": ["x"]}'
    fronted.desk.unlink()
    status, printed = fronted.call(*arguments)
    assert status == 125
    assert "crishim is not there" in printed


def test_a_large_configuration_goes_there_and_back(fronted: Fronted) -> None:
    large = json.dumps({"x": "y" * (20 << 20)}).encode()
    fronted.config.write_bytes(large)
    fronted.serve(fronted.answering(encode_answer(Answer(large + b" "))))
    assert fronted.create()[0] == 3
    assert fronted.asked == [encode_question(Question("create", ID, str(fronted.bundle), large))]
    assert fronted.config.read_bytes() == large + b" "


def test_many_that_ask_at_once_wait_their_turn(fronted: Fronted) -> None:
    """More than the desk's backlog holds."""
    fronted.serve(*[fronted.answering(encode_answer(Answer(b"{}")))] * 12, backlog=1)
    bundles = [fronted.folder / f"bundle-{n}" for n in range(12)]
    for bundle in bundles:
        shutil.copytree(fronted.bundle, bundle)
    fronts = [fronted.start("create", "-b", str(bundle), bundle.name) for bundle in bundles]
    for front, bundle in zip(fronts, bundles, strict=True):
        front.communicate(timeout=PATIENCE)
        assert front.returncode == 3
        assert (bundle / "config.json").read_bytes() == b"{}"
    questions = [Question("create", bundle.name, str(bundle), b'{"as": "it was"}') for bundle in bundles]
    assert set(fronted.asked) == set(map(encode_question, questions))


# --- what goes wrong


def test_words_of_a_refusal_are_the_engines(fronted: Fronted) -> None:
    words = 'no: "x" \\ é\tand a\nline ' + "w" * 3000
    fronted.serve(fronted.answering(encode_refusal(words)))
    status, printed = fronted.create()
    assert status == 125
    assert fronted.told() == words.replace("\t", " ").replace("\n", " ")
    assert printed == fronted.log.read_text(), "who calls it by hand is told, too"
    fronted.assert_untouched()


def test_nobody_is_there(fronted: Fronted) -> None:
    assert fronted.create()[0] == 125
    assert fronted.told() == f"crishim is not there to be asked, at {fronted.desk}: no such file or directory"
    fronted.log.unlink()
    fronted.serve().close()  # a server that was killed leaves its socket
    assert fronted.create()[0] == 125
    assert fronted.told().endswith("connection refused")
    fronted.assert_untouched()


WHOLE = encode_answer(Answer(b'{"a": 1}'))
BAD = {
    **{f"cut at {n}": (WHOLE[:n], "ended too early") for n in range(len(WHOLE))},
    "another protocol": (b"HTTP/1.1 200 OK\r\n\r\n", "is no answer"),
    "empty": (encode_answer(Answer(b"")), "is empty"),
    "too long": (b"OK\0\0" + struct.pack(">I", LARGEST + 1), "too long"),
    "endless words": (b"NO\0\0" + struct.pack(">I", 5000), "too long"),
    "unknown steps": (encode_answer(Answer(b"{}", ("dance", "x"))), "does not know"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_answer_changes_nothing(fronted: Fronted, case: str) -> None:
    reply, words = BAD[case]
    fronted.serve(fronted.answering(reply))
    assert fronted.create()[0] == 125
    assert words in fronted.told()
    fronted.assert_untouched()


def test_an_answer_that_does_not_come_is_waited_for_5_s(fronted: Fronted) -> None:
    """At each place where it could be waited for: nothing is said, half is said, nobody accepts, nothing is read."""
    ended = threading.Event()

    def silent(caller: socket.socket) -> None:
        ended.wait(PATIENCE)

    def half(caller: socket.socket) -> None:
        caller.sendall(WHOLE[:10])
        ended.wait(PATIENCE)

    def drip(caller: socket.socket) -> None:
        for byte in encode_answer(Answer(b"x" * 100)):
            try:
                caller.sendall(bytes([byte]))
            except OSError:
                return
            if ended.wait(0.2):
                return

    fronts = []
    folders = []
    for n, talk in enumerate((silent, half, drip, None)):
        one = Fronted(fronted.folder / str(n), [str(fronted.folder / str(n) / "crishim-runc")])
        one.folder.mkdir()
        shutil.copy(fronted.folder / "crishim-runc", one.folder)
        (one.folder / "crishim-runc.conf").write_text(TwinConf(str(fronted.folder / "runc"), str(one.desk)).text())
        one.bundle.mkdir()
        one.config.write_bytes(b'{"as": "it was"}')
        listening = one.serve(*[talk] if talk else [], backlog=0)
        folders.append(one)
        if talk is None:
            fills = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) for _ in range(2)]
            for fill in fills:
                fill.connect_ex(str(one.desk))
        fronts.append(one.start("--log", str(one.log), "create", "-b", str(one.bundle), ID))
    try:
        for one, front in zip(folders, fronts, strict=True):
            front.communicate(timeout=PATIENCE)
            assert front.returncode == 125
            assert one.told() == "crishim did not answer within 5 s"
            assert one.config.read_bytes() == b'{"as": "it was"}'
    finally:
        ended.set()
        for one in folders:
            for thread in one.threads:
                thread.join(PATIENCE)
        for fill in fills:
            fill.close()
        listening.close()


def test_killed_while_it_waits_it_leaves_nothing(fronted: Fronted) -> None:
    asked, ended = threading.Event(), threading.Event()

    def silent(caller: socket.socket) -> None:
        caller.recv(1 << 16)
        asked.set()
        ended.wait(PATIENCE)

    fronted.serve(silent)
    front = fronted.start("create", "-b", str(fronted.bundle), ID)
    assert asked.wait(PATIENCE)
    front.kill()
    front.communicate()
    ended.set()
    fronted.assert_untouched()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot open"),
        ("", "names no runtime"),
        ("/bin/true\n", "names no runtime"),
        ("runc\n/s\n", "names no runtime"),
        ("/bin/true\n/s", "a line has no end"),
        ("/bin/true\n/" + "s" * 120 + "\n", "path is too long"),
        ("/no/runtime\nDESK\n", "cannot run /no/runtime"),
    ],
)
def test_a_front_that_was_not_told_enough_says_so(fronted: Fronted, text: str | None, words: str) -> None:
    conf = fronted.folder / "crishim-runc.conf"
    conf.unlink()
    if text is not None:
        conf.write_text(text.replace("DESK", str(fronted.desk)))
    if "DESK" in (text or ""):
        fronted.serve(fronted.answering(encode_answer(Answer(b"{}"))))
    assert fronted.create()[0] == 125
    assert words in fronted.told()


def test_a_bundle_that_is_not_there_is_named(fronted: Fronted) -> None:
    assert fronted.call("--log", str(fronted.log), "create", "--bundle", "/no/bundle", ID)[0] == 125
    assert fronted.told() == "cannot open /no/bundle/config.json: no such file or directory"


def test_nothing_is_followed_where_others_may_write(fronted: Fronted) -> None:
    """exec's file lies in a folder for everybody's files."""
    victim = fronted.folder / "victim"
    victim.write_text("mine")
    (fronted.bundle / "config.json.crishim").symlink_to(victim)
    fronted.serve(fronted.answering(encode_answer(Answer(b"{}"))))
    assert fronted.create()[0] == 3
    assert victim.read_text() == "mine"
    assert fronted.config.read_bytes() == b"{}"
    assert not fronted.config.is_symlink()
