"""Output as Docker keeps it, and its rotation."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from crishim.engine.simulated import SimulatedEngine
from crishim.engine.simulated.spool import append, encode
from crishim.engine.values import ContainerSpec, LogSpool
from crishim.errors import EngineConflict


def test_a_line_is_as_docker_writes_it() -> None:
    [line] = encode("a\t<b>\r\u2028\n".encode(), "stderr", lambda: 1_700_000_000_120_000_000)
    expected = r'{"log":"a\t\u003cb\u003e\r\u2028\n","stream":"stderr","time":"2023-11-14T22:13:20.12Z"}'
    assert line.decode() == expected + "\n"


def test_bytes_that_are_no_text_are_replaced_one_by_one() -> None:
    [line] = encode(b"\xff\xfe ok \xf0\x9f\n", "stdout", lambda: 0)
    assert json.loads(line)["log"] == "\ufffd\ufffd ok \ufffd\ufffd\n"


@pytest.mark.parametrize("files", [1, 2, 4])
def test_files_are_renamed_when_they_are_full(tmp_path: Path, files: int) -> None:
    path, now = tmp_path / "c-json.log", itertools.count()
    for number in range(200):
        append(path, LogSpool(max_size=1000, max_files=files), b"%d\n" % number, "stdout", lambda: next(now))
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["c-json.log", *(f"c-json.log.{number}" for number in range(1, files))]
    kept = [file.read_text() for file in sorted(tmp_path.iterdir(), reverse=True)]
    kept = [*kept[:-1], kept[-1]] if files == 1 else kept
    numbers = [int(json.loads(line)["log"]) for text in kept for line in text.splitlines()]
    assert numbers == list(range(numbers[0], 200))
    assert all(1000 <= len(text) < 1100 for text in kept[:-1])


async def test_a_test_lets_a_container_speak(tmp_path: Path) -> None:
    engine = SimulatedEngine(root=tmp_path)
    container = await engine.create("speaks", ContainerSpec(image="busybox", command=("serve",), labels={}))
    with pytest.raises(EngineConflict):
        engine.say(container, b"too early\n")
    await engine.start(container)
    engine.say(container, b"one\n")
    engine.say(container, b"two", "stderr")
    lines = Path((await engine.inspect(container)).log_path).read_text().splitlines()
    assert [(json.loads(line)["stream"], json.loads(line)["log"]) for line in lines] == [
        ("stdout", "one\n"),
        ("stderr", "two"),
    ]
    mute = SimulatedEngine()
    other = await mute.create("mute", ContainerSpec(image="busybox", command=("serve",), labels={}))
    await mute.start(other)
    mute.say(other, b"to nobody\n")
