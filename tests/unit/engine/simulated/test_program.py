"""The table of programs, line by line, and signals by all their names."""

from __future__ import annotations

import signal

import pytest

from crishim.engine.simulated.program import Program, parse_program, parse_signal
from crishim.errors import EngineError, Kind


@pytest.mark.parametrize(
    ("line", "program"),
    [
        (["true"], Program(ends_after=0)),
        (["/bin/false"], Program(ends_after=0, exit_code=1)),
        (["sleep", "3"], Program(ends_after=3)),
        (["echo", "two", "words"], Program(ends_after=0, output=b"two words\n")),
        (["sleep", "0.25"], Program(ends_after=0.25)),
        (["sleep", "infinity"], Program()),
        (["sleep", "nonsense"], Program()),
        (["sleep"], Program()),
        (["sh", "-c", "exit 7"], Program(ends_after=0, exit_code=7)),
        (["/bin/sh", "-c", " exit  7 ; "], Program(ends_after=0, exit_code=7)),
        (["sh", "-c", "exit 256"], Program(ends_after=0, exit_code=0)),
        (["sh", "-c", "sleep 2; exit 3"], Program(ends_after=2, exit_code=3)),
        (["sh", "-c", "sleep 2"], Program(ends_after=2)),
        (["sh", "-c", "sleep infinity"], Program()),
        (["sh", "-c", "echo exit 7"], Program()),
        (["sh", "-c", ""], Program(ends_after=0)),
        (["sh", "-c", "exit 7", "name"], Program()),
        (["nginx", "-g", "daemon off;"], Program()),
        (["/missing/program", "x"], Program(missing=True)),
        (["server", "ignore-term"], Program(ignores_term=True)),
        (["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], Program(ignores_term=True)),
        (["/pause"], Program(ends_well_on_term=True)),
    ],
)
def test_table(line: list[str], program: Program) -> None:
    assert parse_program(line) == program


def test_missing_prefixes_are_the_engine_s() -> None:
    assert parse_program(["/opt/x"], ["/opt"]).missing
    assert not parse_program(["/missing"], ["/opt"]).missing


@pytest.mark.parametrize(
    ("program", "number", "code"),
    [
        (Program(), signal.SIGTERM, 143),
        (Program(), signal.SIGKILL, 137),
        (Program(), signal.SIGINT, 130),
        (Program(), signal.SIGUSR1, 138),
        (Program(), signal.SIGWINCH, None),
        (Program(), signal.SIGCHLD, None),
        (Program(ignores_term=True), signal.SIGTERM, None),
        (Program(ignores_term=True), signal.SIGINT, None),
        (Program(ignores_term=True), signal.SIGKILL, 137),
        (Program(ignores_term=True), signal.SIGQUIT, 131),
        (Program(ends_well_on_term=True), signal.SIGTERM, 0),
        (Program(ends_well_on_term=True), signal.SIGKILL, 137),
    ],
)
def test_signals(program: Program, number: int, code: int | None) -> None:
    assert program.exit_code_on(number) == code


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SIGTERM", 15),
        ("TERM", 15),
        ("sigkill", 9),
        ("15", 15),
        ("SIGRTMIN", 34),
        ("SIGRTMIN+3", 37),
        ("RTMAX-1", 63),
        ("SIGPOLL", 29),
        ("SIGCLD", 17),
    ],
)
def test_signal_names(text: str, number: int) -> None:
    assert parse_signal(text) == number


@pytest.mark.parametrize("text", ["", "SIG", "0", "65", "SIGNONSENSE", "SIG_DFL", "RTMIN+60", "-9"])
def test_unknown_signals_are_refused(text: str) -> None:
    with pytest.raises(EngineError) as caught:
        parse_signal(text)
    assert caught.value.kind is Kind.INVALID_ARGUMENT
