from __future__ import annotations

import pytest

from crishim.model import Signal
from crishim.rpc.signals import parse_signal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SIGTERM", Signal.SIGNAL_SIGTERM),
        ("term", Signal.SIGNAL_SIGTERM),
        ("15", Signal.SIGNAL_SIGTERM),
        ("9", Signal.SIGNAL_SIGKILL),
        ("SIGCLD", Signal.SIGNAL_SIGCLD),
        ("IOT", Signal.SIGNAL_SIGIOT),
        ("SIGPOLL", Signal.SIGNAL_SIGPOLL),
        ("17", Signal.SIGNAL_SIGCHLD),
        ("SIGRTMIN", Signal.SIGNAL_SIGRTMIN),
        ("SIGRTMIN+3", Signal.SIGNAL_SIGRTMINPLUS3),
        ("RTMIN+15", Signal.SIGNAL_SIGRTMINPLUS15),
        ("SIGRTMIN+16", Signal.SIGNAL_SIGRTMAXMINUS14),
        ("SIGRTMAX-14", Signal.SIGNAL_SIGRTMAXMINUS14),
        ("SIGRTMAX-30", Signal.SIGNAL_SIGRTMIN),
        ("SIGRTMAX-0", Signal.SIGNAL_SIGRTMAX),
        ("34", Signal.SIGNAL_SIGRTMIN),
        ("37", Signal.SIGNAL_SIGRTMINPLUS3),
        ("64", Signal.SIGNAL_SIGRTMAX),
        ("", Signal.SIGNAL_RUNTIME_DEFAULT),
        ("NONSENSE", Signal.SIGNAL_RUNTIME_DEFAULT),
        ("SIGRTMIN+99", Signal.SIGNAL_RUNTIME_DEFAULT),
        ("0", Signal.SIGNAL_RUNTIME_DEFAULT),
        ("²", Signal.SIGNAL_RUNTIME_DEFAULT),
    ],
)
def test_every_way_to_write_a_signal(text: str, expected: Signal) -> None:
    assert parse_signal(text) is expected


def test_every_signal_of_the_interface_is_found_by_its_name() -> None:
    for member in Signal:
        if member is not Signal.SIGNAL_RUNTIME_DEFAULT:
            name = member.name.removeprefix("SIGNAL_").replace("PLUS", "+").replace("MINUS", "-")
            assert parse_signal(name) is member
