"""The front's program: what it becomes, and what it asks before."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from crishim.front.twins import TwinConf, marker_path
from crishim.front.wire import Answer, Question, encode_answer, encode_question
from tests.component.front.fronted import ID, PATIENCE, Fronted

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
