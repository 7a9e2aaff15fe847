"""`crictl logs` in each form. It reads with the kubelet's own package, so that `kubectl logs` gives the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.test_crictl import Crictl, crictl, reference, write

__all__ = ["crictl", "reference"]
pytestmark = pytest.mark.engine

LONG = "x" * 40_000
"""Three parts."""
SCRIPT = (
    "head -c 40000 /dev/zero | tr '\\0' x; echo; echo; printf 'a\\tb \"q\" \\\\ end\\n'; sleep 0.01; echo oops >&2;"
    " sleep 0.01; for i in 1 2 3; do echo line $i; done; while [ ! -e /tmp/go ]; do sleep 0.05; done;"
    " for i in 1 2 3; do echo more $i; done; printf 'no end'"
)
BEFORE = [LONG, "", 'a\tb "q" \\ end', "line 1", "line 2", "line 3"]


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def text(crictl: Crictl, *arguments: str) -> str:
    """What `crictl logs` prints to its standard output."""
    done = crictl.run("logs", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_option(crictl: Crictl, reference: str, tmp_path: Path) -> None:
    crictl("pull", reference)
    pod_config = {
        "metadata": {"name": "logs", "namespace": "default", "uid": "logs-uid"},
        "log_directory": str(tmp_path / "logs"),
        "linux": {},
    }
    pod_file = write(tmp_path / "pod.json", pod_config)
    pod = crictl("runp", pod_file)

    def start(attempt: int, script: str) -> str:
        config = {
            "metadata": {"name": "main", "attempt": attempt},
            "image": {"image": reference},
            "command": ["sh", "-c", script],
            "log_path": f"main/{attempt}.log",  # a kubelet's form
            "linux": {},
        }
        container = crictl("create", pod, write(tmp_path / "container.json", config), pod_file)
        return crictl("start", container)

    first = start(0, "echo first life; echo its end >&2; exit 3")
    until(lambda: bool(crictl("ps", "--quiet", "--state", "exited")), "the first has ended")
    container = start(1, SCRIPT)
    log = tmp_path / "logs" / "main" / "1.log"
    until(lambda: log.read_bytes().endswith(b"line 3\n"), "it has printed")

    whole = crictl.run("logs", container)
    assert (whole.returncode, whole.stdout) == (0, "".join(f"{line}\n" for line in BEFORE))
    assert whole.stderr == "oops\n"

    assert text(crictl, "--tail", "2", container) == "line 2\nline 3\n"
    assert text(crictl, "--tail", "0", container) == ""
    stamped = text(crictl, "--timestamps", container).splitlines()
    moments, said = zip(*(line.split(" ", 1) for line in stamped if " " in line), strict=True)
    assert list(moments) == sorted(moments)
    assert list(said)[-3:] == BEFORE[-3:]
    assert text(crictl, "--since", moments[-2], container) == "line 2\nline 3\n"
    assert text(crictl, "--since", moments[-2], "--tail", "1", "--timestamps", container) == f"{stamped[-1]}\n"
    assert text(crictl, "--since", "2999-01-01T00:00:00Z", container) == ""
    assert text(crictl, "--limit-bytes", "100", container) == LONG[:100]

    previous = crictl.run("logs", "--previous", container)
    assert (previous.returncode, previous.stdout, previous.stderr) == (0, "first life\n", "its end\n")
    assert text(crictl, first) == "first life\n"

    follow = crictl.start("logs", "--follow", "--tail", "1", container)
    try:
        assert follow.stdout is not None
        assert follow.stdout.readline() == "line 3\n"
        log.rename(f"{log}.20260101-000000")
        crictl("logs", "--reopen", container)
        crictl("exec", container, "touch", "/tmp/go")
        rest, _ = follow.communicate(timeout=60)
    finally:
        follow.kill()
    assert rest == "more 1\nmore 2\nmore 3\nno end"
    assert follow.returncode == 0
    assert text(crictl, container) == rest
    crictl("rmp", "--force", pod)
