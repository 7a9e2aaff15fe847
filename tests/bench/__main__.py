"""`python -m tests.bench [--rounds N] [--compare A.json B.json]`, in a test world (`make bench` makes one)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench import figures, memory, reads, report, stats, verbs
from tests.bench.serve import serve
from tests.env import images
from tests.env.engine import TestEngine


def main() -> int:
    """Measure everything and write the report; exit status 1 if a demanded figure was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--rounds", type=int, default=105, help="pods run through crishim and the raw engine")
    parser.add_argument("--pods", type=int, default=200, help="pods run while memory is watched")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="print ratios of two results")
    chosen = parser.parse_args()
    if chosen.compare:
        print(report.compare(*chosen.compare))
        return 0
    measured: list[figures.Figure] = []
    with tempfile.TemporaryDirectory() as name, TestEngine(Path(name) / "engine") as engine:
        folder = Path(name)
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        none = ("--network", "none")
        with serve(folder / "a", engine.url, *none) as served:
            version = served.client.Version(cri.VersionRequest()).runtime_version
            measured.append(memory.idle(served))
            measured.append(figures.summarize("start to ready", [served.startup * 1000], must=1000))
            measured += verbs.measure(served, str(engine.socket), images.BUSYBOX_REF, chosen.rounds)
            measured += reads.measure_status(served, images.BUSYBOX_REF)
        with serve(folder / "b", engine.url, *none) as served:
            measured.append(memory.growth(served, images.BUSYBOX_REF, chosen.pods))
            measured += stats.measure(served, images.BUSYBOX_REF, engine.pid)
        with serve(folder / "c", "simulated:", *none) as served:
            measured += reads.measure_lists(served, "busybox", (10, 100, 500, 1000))
    machine = figures.machine(version)
    report.write(machine, measured)
    print(report.make_table(machine, measured))
    missed = [f.name for f in measured if f.must and f.median > f.must]
    print("missed: " + ", ".join(missed) if missed else "all demands are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
