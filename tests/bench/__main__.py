"""`python -m tests.bench [--rounds N] [--compare A.json B.json]`, in a test world (`make bench` makes one)."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench import (
    anchored,
    cpu,
    creates,
    events,
    figures,
    idle,
    judge,
    logs,
    memory,
    network,
    reads,
    report,
    stats,
    streaming,
    verbs,
)
from tests.bench.report import in_section
from tests.bench.serve import serve
from tests.conformance.critest import CritestError
from tests.conformance.tools import ToolsMissingError
from tests.env import images, world
from tests.env.engine import TestEngine


def main() -> int:
    """Measure everything and write the report; exit status 1 if a demanded figure was missed or critest failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--rounds", type=int, default=105, help="pods run through crishim and the raw engine")
    parser.add_argument("--pods", type=int, default=200, help="pods run while memory is watched")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds for which idle pods are watched")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="print ratios of two results")
    chosen = parser.parse_args()
    if chosen.compare:
        return compare(*chosen.compare)
    if world.folder() is None:
        parser.error("it makes cgroups and networks: only in a test world (make bench)")
    load = os.getloadavg()[0]
    # A short path, for the sockets in it.
    with tempfile.TemporaryDirectory() as name, TestEngine(Path(name) / "engine") as engine:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        version, measured = measure(engine, Path(name), chosen.rounds, chosen.pods, chosen.idle)
        measured += in_section("Pod network", network.measure(Path(name) / "network"))
        skipped, failed = [], False
        try:
            with serve(Path(name) / "g", engine.url, "--network", "none") as served:
                streams = streaming.measure(served, engine, Path(name) / "streams")
            measured += in_section("Exec and port-forward", streams)
        except ToolsMissingError as error:
            skipped.append(f"exec and port-forward: not run ({error})")
        try:
            measured += in_section("critest's benchmark", judge.measure(engine, Path(name) / "judge"))
        except ToolsMissingError as error:
            skipped.append(f"critest's benchmark: not run ({error})")
        except CritestError as error:
            skipped.append(f"critest's benchmark: failed ({error})")
            failed = True
    machine = figures.machine(version, load)
    report.write(machine, measured, skipped)
    print(report.make_table(machine, measured, skipped))
    missed = [f.name for f in measured if f.missed]
    print("missed: " + ", ".join(missed) if missed else "all demands are met")
    return 1 if missed or failed else 0


def measure(
    engine: TestEngine, folder: Path, rounds: int, pods: int, idle_seconds: float
) -> tuple[str, list[figures.Figure]]:
    """All figures but critest's; with the engine's version as crishim tells it."""
    none = ("--network", "none")
    measured: list[figures.Figure] = []
    with serve(folder / "a", engine.url, *none) as served:
        version = served.client.Version(cri.VersionRequest()).runtime_version
        start = [memory.idle(served), memory.with_a_log(served, images.BUSYBOX_REF, folder / "log")]
        start.append(figures.summarize("start to ready", [served.startup * 1000], must=1000))
        own = verbs.measure(served, str(engine.socket), images.BUSYBOX_REF, rounds)
        made = creates.measure(served, engine.api, images.BUSYBOX_REF, folder / "mounts", max(5, rounds // 3))
        calls = reads.measure_status(served, images.BUSYBOX_REF, folder / "bare")
        spent = cpu.measure(served, engine, images.BUSYBOX_REF, max(1, rounds // 3))
        written = [logs.measure_latency(served, images.BUSYBOX_REF, folder / "words")]
    with serve(folder / "b", engine.url, *none) as served:
        start.append(memory.growth(served, images.BUSYBOX_REF, pods))
        told = stats.measure(served, images.BUSYBOX_REF, engine.pid)
        endpoint = f"unix://{folder}/b/crishim.sock"
        told += events.measure(endpoint, engine.url, images.BUSYBOX_REF, folder / "ends")
    with serve(folder / "c", "simulated:", *none) as served:
        lists = reads.measure_lists(served, "busybox", (10, 100, 500, 1000))
    with serve(folder / "d", engine.url, *none) as served:
        spent += idle.measure(served, engine.pid, images.BUSYBOX_REF, idle_seconds)
    with serve(folder / "e", "simulated:", *none) as served:
        spools = folder / "e" / "run" / "simulated" / "containers"
        written += logs.measure_passing(served, "busybox", spools, megabytes=20)
    with serve(folder / "f", "simulated:", *none) as served:
        written += logs.measure_idle(served, "busybox")
    with serve(folder / "g", engine.url, "--network", "embedded") as served:
        own += verbs.measure_embedded(served, images.BUSYBOX_REF, max(10, rounds // 3))
    carried = anchored.measure(engine, folder / "h", max(10, rounds // 3))
    written += logs.measure_writer()
    measured += in_section("Memory and start", start)
    measured += in_section("Own share of each verb", own)
    measured += in_section("Pods without a process (the runtime front)", carried)
    measured += in_section("CreateContainer beside the raw engine's create", made)
    measured += in_section("Calls that only read", calls)
    measured += in_section("Lists by number of containers, simulated engine", lists)
    measured += in_section("Processor time", spent)
    measured += in_section("Logs", written)
    measured += in_section("Statistics, metrics and events", told)
    return version, measured


def compare(a: Path, b: Path) -> int:
    """Print the ratios of two files of results; 2 when one is none."""
    try:
        print(report.compare(a, b))
    except (OSError, ValueError) as error:
        print(f"bench-compare: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
