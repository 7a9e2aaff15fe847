from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import pytest

from crishim.service.notify import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_states_are_sent_to_the_socket_that_was_named(tmp_path: Path, abstract: bool) -> None:
    name = f"@crishim-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    environ = {"NOTIFY_SOCKET": name, "PATH": "/bin"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name.replace("@", "\0", 1) if abstract else name)
        receiver.settimeout(10)
        notifier = Notifier(environ)
        notifier.ready("serving\non x")
        notifier.stopping()
        assert receiver.recv(1000) == b"READY=1\nSTATUS=serving on x"
        assert receiver.recv(1000).startswith(b"STOPPING=1\n")
    assert environ == {"PATH": "/bin"}, "what the server starts must not speak for it"


def test_nobody_asked_and_nothing_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    Notifier({}).ready("serving")
    assert caplog.records == []


def test_who_cannot_be_told_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready("serving")
    assert "nobody" in caplog.text
