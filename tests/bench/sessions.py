"""What an exec costs besides its bytes: a short one from end to end, our own share of a probe, many that are open."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.spdy import Session
from tests.conformance import tools

ROUNDS = 21
OPEN = 200
_STREAMS = [{"streamtype": kind} for kind in ("error", "stdin", "stdout")]
_STDIN, _STDOUT = 3, 5


def measure(served: Served, docker: Sequence[str], container: str, folder: Path) -> list[Figure]:
    """`docker`: the beginning of its client's command line; `folder`: for crictl's configuration.

    Raises ToolsMissingError when crictl is not built.
    """
    config = folder / "crictl.yaml"
    config.write_text(f"runtime-endpoint: unix://{served.socket}\n")
    return [
        _short([str(tools.crictl_path()), f"--config={config}"], docker, container),
        _probe(served, container),
        _open(served, container),
    ]


def _short(crictl: Sequence[str], docker: Sequence[str], container: str) -> Figure:
    took: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for times, client in zip(took, (crictl, docker), strict=True):
            began = time.perf_counter()
            subprocess.run([*client, "exec", container, "true"], check=True, stdin=subprocess.DEVNULL)
            times.append((time.perf_counter() - began) * 1000)
    ours, theirs = (summarize("", times) for times in took)
    ratios = [one / other for one, other in zip(*took, strict=True)]
    note = f"crictl {ours.median} ms, docker {theirs.median} ms"
    return summarize("exec true by crictl against docker exec true", ratios, unit="×", must=1.2, note=note)


def _probe(served: Served, container: str) -> Figure:
    for _ in range(5 + ROUNDS):
        served.client.ExecSync(cri.ExecSyncRequest(container_id=container, cmd=["true"], timeout=10))
    calls = [call for call in served.calls() if call["verb"] == "ExecSync"][5:]
    own, whole = ([float(str(call[key])) for call in calls] for key in ("own_ms", "ms"))
    note = f"whole call {summarize('', whole).median} ms"
    return summarize("ExecSync true: own share", own, must=3.0, note=note)


def _open(served: Served, container: str) -> Figure:
    """What each of many sessions adds to the server's memory, all of which answer."""
    request = cri.ExecRequest(container_id=container, cmd=["cat"], stdin=True, stdout=True)

    def open_one() -> Session:
        return Session(served.client.Exec(request).url, "v4.channel.k8s.io", _STREAMS)

    with ExitStack() as stack:
        few = [stack.enter_context(open_one()) for _ in range(5)]
        _talk(few)
        before = _resident(served.pid)
        many = [stack.enter_context(open_one()) for _ in range(OPEN)]
        _talk(many)
        grown = (_resident(served.pid) - before) / OPEN
    return summarize(f"memory of an open exec, {OPEN} of them", [grown], unit="KB", must=60.0, note="SPDY, RSS")


def _talk(open_sessions: Sequence[Session]) -> None:
    for session in open_sessions:
        session.send(_STDIN, b"hello")
    for session in open_sessions:
        if session.read(_STDOUT, 5) != 5:
            raise RuntimeError("a session did not answer")


def _resident(pid: int) -> int:
    """KB that the server itself occupies."""
    words = Path(f"/proc/{pid}/status").read_text().split()
    return int(words[words.index("VmRSS:") + 1])
