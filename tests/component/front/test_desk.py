"""The desk: who asks gets an answer or words, and nobody holds it up."""

from __future__ import annotations

import asyncio
import os
import stat
import struct
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crishim.aiokit.background import Background
from crishim.checkpoint.record import Phase, SandboxRecord
from crishim.errors import InvalidArgument
from crishim.front import desk as desk_module
from crishim.front import wire
from crishim.front.desk import Desk
from crishim.front.wire import MAGIC, Answer, Question, encode_answer, encode_question, encode_refusal
from crishim.model import PodSandboxConfig
from crishim.runtime.front import Front, SlowEdit
from crishim.runtime.index import Index
from crishim.runtime.objects import Sandbox

QUESTION = Question("create", "4f" * 32, "/b", b'{"a": 1}')


class Answers:
    """What the server says; a test sets it."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.answer: Answer | Exception = Answer(b'{"b": 2}')
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()

    async def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        self.begun.set()
        await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
async def desk(answers: Answers) -> AsyncIterator[Desk]:
    with tempfile.TemporaryDirectory(prefix="desk") as folder:  # a short path, for the socket
        desk = Desk(Path(folder, "run", "front.sock"), answers, uid=os.getuid())
        await desk.start()
        yield desk
        await desk.stop()
        assert not desk.path.exists()
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "front asking"]


async def ask(desk: Desk, sent: bytes = encode_question(QUESTION), *, end: bool = False) -> bytes:
    reader, writer = await asyncio.open_unix_connection(desk.path)
    writer.write(sent)
    if end:
        writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_who_asks_is_answered(desk: Desk, answers: Answers) -> None:
    assert await ask(desk) == encode_answer(Answer(b'{"b": 2}'))
    assert answers.asked == [QUESTION]
    assert (desk.answered, desk.refused) == (1, 0)


async def test_the_socket_is_its_users_alone(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the umask, which stays as it is: other threads make files meanwhile."""
    before = os.umask(0)
    monkeypatch.setattr(os, "umask", None)
    try:
        with tempfile.TemporaryDirectory(prefix="desk") as folder:
            desk = Desk(Path(folder, "front.sock"), answers, uid=os.getuid())
            await desk.start()
            assert stat.S_IMODE(desk.path.stat().st_mode) == 0o600
            await desk.stop()
    finally:
        monkeypatch.undo()
        os.umask(before)


async def test_others_get_words_even_where_they_can_reach_it(answers: Answers) -> None:
    with tempfile.TemporaryDirectory(prefix="desk") as folder:
        desk = Desk(Path(folder, "front.sock"), answers, uid=os.getuid() + 1)
        await desk.start()
        assert await ask(desk) == encode_refusal(f"only user {os.getuid() + 1} is answered, not {os.getuid()}")
        await desk.stop()
    assert answers.asked == []


@pytest.mark.parametrize(
    ("error", "words"),
    [(InvalidArgument("no: é"), "no: é"), (KeyError("x"), "internal error: KeyError"), (ValueError("v"), "v")],
)
async def test_what_goes_wrong_becomes_words(desk: Desk, answers: Answers, error: Exception, words: str) -> None:
    answers.answer = error
    assert await ask(desk) == encode_refusal(words)
    answers.answer = Answer(b"{}")
    assert await ask(desk) == encode_answer(Answer(b"{}")), "and the next one is answered"


async def test_an_answer_that_cannot_be_sent_becomes_words(
    desk: Desk, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LARGEST", 50)
    answers.answer = Answer(b"x" * 51)
    assert await ask(desk) == encode_refusal("51 bytes are more than the front takes")


def part(size: int, content: bytes = b"") -> bytes:
    return struct.pack(">I", size) + content


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not how a front of this version asks"),
        (MAGIC + part(17), "may have 16"),
        (MAGIC + part(6, b"create") + part(1 << 31), "may have 128"),
        (MAGIC + part(6, b"create") + part(0) + part(0) + part((64 << 20) + 1), "may have 67108864"),
        (MAGIC + part(2, b"\xff\xfe") + part(0) * 3, "is not text"),
        *((encode_question(QUESTION)[:n], "ended too early") for n in range(len(encode_question(QUESTION)))),
    ],
)
async def test_what_is_no_question_gets_words(desk: Desk, answers: Answers, sent: bytes, words: str) -> None:
    reply = await ask(desk, sent, end=True)
    assert reply.startswith(b"NO\0\0")
    assert words.encode() in reply
    assert answers.asked == []


async def test_many_ask_at_once(desk: Desk, answers: Answers) -> None:
    large = Answer(b"x" * (1 << 20))
    answers.answer = large
    replies = await asyncio.gather(*(ask(desk) for _ in range(50)))
    assert set(replies) == {encode_answer(large)}


async def test_who_says_nothing_is_dropped_and_holds_nobody_up(
    desk: Desk, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "PATIENCE", 0.05)
    silent = [await asyncio.open_unix_connection(desk.path) for _ in range(3)]
    for reader, writer in silent:
        assert await reader.read() == b""
        writer.close()
    answers.gate.clear()  # the server itself is slow
    assert await ask(desk) == b""
    answers.gate.set()
    monkeypatch.setattr(desk_module, "PATIENCE", 5.0)
    assert await ask(desk) == encode_answer(Answer(b'{"b": 2}'))


async def test_who_leaves_holds_nobody_up(desk: Desk, answers: Answers) -> None:
    answers.answer = Answer(b"x" * (8 << 20))
    for _ in range(3):
        _, writer = await asyncio.open_unix_connection(desk.path)
        writer.write(encode_question(QUESTION))
        await writer.drain()
        writer.transport.abort()
    answers.answer = Answer(b"{}")
    assert await ask(desk) == encode_answer(Answer(b"{}"))


async def test_it_stops_in_the_middle(desk: Desk, answers: Answers) -> None:
    answers.gate.clear()
    asking = asyncio.create_task(ask(desk))
    await answers.begun.wait()
    await desk.stop()
    assert await asking == b""


async def test_what_a_killed_server_left_is_replaced(desk: Desk, answers: Answers) -> None:
    """Nothing answers there any more but the new one."""
    other = Desk(desk.path, answers, uid=os.getuid())
    await other.start()
    assert await ask(other) == encode_answer(Answer(b'{"b": 2}'))
    assert other.answered == 1
    await other.stop()


async def test_what_was_made_for_a_front_that_gave_up_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread goes on after the front's patience; the next question of this container waits until that is undone."""
    monkeypatch.setattr(desk_module, "PATIENCE", 0.05)
    index, background = Index(), Background()
    begun, gate = threading.Event(), threading.Event()
    record = SandboxRecord(id=QUESTION.id, phase=Phase.READY, config=PodSandboxConfig(), created_at=1)
    index.put_sandbox(Sandbox(record=record, live=None))
    made: list[str] = []

    def make(config: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        gate.wait(30)
        made.append("made")
        return config

    edit = SlowEdit(make, lambda: made.append("taken away"))
    front = Front(index, lambda _index, _question: edit, background)
    with tempfile.TemporaryDirectory(prefix="desk") as folder:
        desk = Desk(Path(folder, "front.sock"), front.answer, uid=os.getuid())
        await desk.start()
        late = asyncio.create_task(ask(desk))
        await asyncio.to_thread(begun.wait, 30)
        await asyncio.sleep(0.1)  # longer than its patience
        monkeypatch.setattr(desk_module, "PATIENCE", 30.0)
        again = asyncio.create_task(ask(desk))
        gate.set()
        assert await late == b""
        assert await again == encode_answer(Answer(b'{"a":1}'))
        await desk.stop()
    assert made == ["made", "taken away", "made"]
    assert len(background) == 0
