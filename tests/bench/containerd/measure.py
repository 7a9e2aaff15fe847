"""What pods cost on containerd: the same requests as to anchored pods, on the reference plugins' bridge.

``python -m tests.bench.containerd.measure [--rounds N]``, in a test world; part of ``make bench``.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.bench import anchored
from tests.bench.containerd.build import version
from tests.bench.containerd.server import serve
from tests.bench.figures import Figure, summarize


def measure(folder: Path, rounds: int) -> list[Figure]:
    """As `anchored.measure`, without demands.  Raises ToolsMissingError when it is not built."""
    name = f"containerd {version()}"
    with serve(folder) as served:
        made, ended = anchored.alone(served.client, rounds)
        walls = anchored.at_once(served.client)
        before, after = anchored.held(served.client, served.pid)
    return [
        summarize(f"{name}: RunPodSandbox, bridge by CNI's reference plugins", made),
        summarize(f"{name}: StopPodSandbox and RemovePodSandbox, no containers", ended),
        summarize(f"{name}: RunPodSandbox, {anchored.AT_ONCE} at once, wall", walls),
        summarize(f"{name}: memory per pod", [(after - before) / anchored.HELD], unit="MB"),
    ]


def main() -> None:
    """Print the figures of this module alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.containerd.measure")
    parser.add_argument("--rounds", type=int, default=30)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for figure in measure(Path(name) / "c", chosen.rounds):
            print(f"{figure.name}: {figure.median} {figure.unit}, p90 {figure.p90}")


if __name__ == "__main__":
    main()
