"""crishim as a process of its own, to be measured from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from crishim.cri.v1 import runtime_pb2 as cri
from crishim.testing.client import CRIClient


@dataclass(frozen=True)
class Served:
    """A running server: a client of it, its socket, its process, and the file with the steps of each call."""

    client: CRIClient
    socket: Path
    pid: int
    timeline: Path
    startup: float
    """Seconds from start to a Status that says RuntimeReady."""

    def calls(self) -> list[dict[str, object]]:
        """All calls so far, one dictionary each, as the server wrote them."""
        return [json.loads(line) for line in self.timeline.read_text().splitlines()]

    def rss(self, *, children: bool = True) -> float:
        """Memory of the server, and unless told otherwise of all its children, in MB (RSS)."""
        total = 0
        pids = [self.pid]
        while pids:
            process = Path(f"/proc/{pids.pop()}")
            for line in (process / "status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
            if not children:
                break
            pids += [int(p) for task in (process / "task").iterdir() for p in (task / "children").read_text().split()]
        return total / 1024


@contextmanager
def serve(folder: Path, engine: str, *more: str, timed: bool = True) -> Iterator[Served]:
    """Start, wait until the engine was read, yield, stop.  `timed`: the steps of each call are written, which no node
    has done all the time."""
    folder.mkdir(parents=True, exist_ok=True)
    endpoint = f"unix://{folder}/crishim.sock"
    timeline = folder / "timeline.jsonl"
    command = [
        *(sys.executable, "-m", "crishim", "serve", "--listen", endpoint, "--engine", engine),
        *("--state-dir", str(folder / "state"), "--run-dir", str(folder / "run")),
        *(("--timeline", str(timeline)) if timed else ()),
        *("--log-level", "warning", *more),
    ]
    # CRISHIM_... in the environment are settings, and an unknown one is an error: the tests' own are not passed on
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CRISHIM_")}
    began = time.monotonic()
    with subprocess.Popen(command, env=environment) as process:
        try:
            # A channel that is opened too early waits a second before it tries again.
            while not (folder / "crishim.sock").exists():
                if process.poll() is not None:
                    raise RuntimeError(f"the server ended with status {process.returncode}")
                time.sleep(0.002)
            client = CRIClient(endpoint)
            _wait_ready(client)
            yield Served(client, folder / "crishim.sock", process.pid, timeline, time.monotonic() - began)
            client.close()
        finally:
            process.terminate()
            process.wait(30)


def _wait_ready(client: CRIClient) -> None:
    for _ in range(1000):
        try:
            conditions = {c.type: c.status for c in client.Status(cri.StatusRequest(), timeout=5).status.conditions}
        except grpc.RpcError:
            conditions = {}
        if conditions.get("RuntimeReady"):
            return
        time.sleep(0.01)
    raise RuntimeError("the server does not become ready")
