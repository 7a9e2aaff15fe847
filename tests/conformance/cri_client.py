"""A client as a kubelet is one: grpc-go with the messages of k8s.io/cri-api, at the versions that go.mod pins.

``python -m tests.conformance.cri_client`` builds it as far as it is not in the cache: outside a test world, as Go's
module proxy is asked for the sources.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.conformance.go_programs import GoPrograms

NAME = "cri-client"
PROGRAMS = GoPrograms(
    what=NAME,
    here=Path(__file__).parent,
    sources=("programs/cri_client/main.go", "go.mod", "go.sum"),
    packages={NAME: "."},
    how="run: .venv/bin/python -m tests.conformance.cri_client",
)


@dataclass(frozen=True)
class Timed:
    """Calls made one after the other: the milliseconds of each, and the last one's response."""

    milliseconds: list[float]
    response: bytes


class GoClient:
    """The client, on one connection to a unix socket.  Closed at the end of its `with` block.

    Raises ToolsMissingError when it has not been built.
    """

    def __init__(self, socket: Path) -> None:
        self._process = subprocess.Popen(
            [PROGRAMS.folder() / NAME, str(socket)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            assert self._process.stdin
            self._process.stdin.close()

    def call(self, method: str, request: bytes, times: int = 1) -> Timed:
        """Call `method` (``/service/name``) so often, timed in the client.  Raises RuntimeError when a call fails."""
        assert self._process.stdin
        assert self._process.stdout
        order = {"method": method, "request": base64.b64encode(request).decode(), "times": times}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{NAME} ended with status {self._process.wait()}")
        found = json.loads(line)
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']}")
        taken = [nanoseconds / 1e6 for nanoseconds in found["nanoseconds"]]
        return Timed(taken, base64.b64decode(found.get("response", "")))


if __name__ == "__main__":
    sys.exit(PROGRAMS.main())
