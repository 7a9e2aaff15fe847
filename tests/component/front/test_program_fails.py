"""Whatever goes wrong is an error in words, and changes nothing."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import threading

import pytest

from crishim.front.twins import TwinConf
from crishim.front.wire import LARGEST, Answer, encode_answer, encode_refusal
from tests.component.front.fronted import ID, PATIENCE, Fronted

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


@pytest.mark.parametrize("odd", ['"', "\\", "é", "x"])
@pytest.mark.parametrize("more", range(3))
def test_what_is_too_long_to_be_told_is_cut(fronted: Fronted, odd: str, more: int) -> None:
    assert fronted.call("--log", str(fronted.log), "create", "--bundle", "x" * more + odd * 20_000, ID)[0] == 125
    entry = json.loads(fronted.log.read_text(errors="replace"))
    assert entry["msg"].startswith(f"crishim front: a path is too long: {'x' * more}{odd}{odd}")


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
