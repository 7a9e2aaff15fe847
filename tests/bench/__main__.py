"""`python -m tests.bench [--rounds N] [--compare A.json B.json]`, in a test world (`make bench` makes one)."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
from tests.bench.containerd import measure as containerd
from tests.bench.report import in_section
from tests.bench.serve import serve
from tests.conformance.tools import ToolsMissingError
from tests.env import images, world
from tests.env.engine import TestEngine

SECTIONS = (
    MEMORY := "Memory and start",
    OWN := "Own share of each verb",
    CREATES := "CreateContainer beside the raw engine's create",
    CARRIED := "Pods without a process (the runtime front)",
    READS := "Calls that only read",
    LISTS := "Lists by number of containers, simulated engine",
    CPU := "Processor time",
    LOGS := "Logs",
    STATS := "Statistics, metrics and events",
    NETWORK := "Pod network",
    STREAMING := "Exec and port-forward",
    CRITEST := "critest's benchmark",
)
"""The parts of the table, in its order."""


def main() -> int:
    """Measure everything and write the report; exit status 1 if a demanded figure was missed or a part failed."""
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
    results = Results()
    # A short path, for the sockets in it.
    with tempfile.TemporaryDirectory() as name, TestEngine(Path(name) / "engine") as engine:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        version = measure(results, engine, Path(name), chosen.rounds, chosen.pods, chosen.idle)
    machine = figures.machine(version, load)
    measured = results.in_order()
    report.write(machine, measured, results.not_measured)
    print(report.make_table(machine, measured, results.not_measured))
    missed = [f.name for f in measured if f.missed]
    print("missed: " + ", ".join(missed) if missed else "all demands are met")
    return 1 if missed or results.failed else 0


class Results:
    """What was measured so far, and what could not be: one part that fails does not cost the others."""

    def __init__(self) -> None:
        self.not_measured: list[str] = []
        self.failed = False
        self._sections: dict[str, list[figures.Figure]] = {title: [] for title in SECTIONS}

    def add(self, section: str, measured: Iterable[figures.Figure]) -> None:
        """Keep figures, and print them, for a run takes many minutes."""
        made = in_section(section, measured)
        self._sections[section] += made
        print("\n".join(report.rows(made)), flush=True)

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """A part that may fail by itself."""
        try:
            yield
        except ToolsMissingError as error:
            self.not_measured.append(f"{what}: not run ({error})")
        except Exception as error:
            traceback.print_exc()
            self.not_measured.append(f"{what}: failed ({str(error).splitlines()[0] if str(error) else error!r})")
            self.failed = True

    def in_order(self) -> list[figures.Figure]:
        return [figure for section in self._sections.values() for figure in section]


def measure(results: Results, engine: TestEngine, folder: Path, rounds: int, pods: int, idle_seconds: float) -> str:
    """All figures, into `results`; the engine's version as crishim tells it."""
    none = ("--network", "none")
    ref = images.BUSYBOX_REF
    few = max(10, rounds // 3)
    with serve(folder / "a", engine.url, *none) as served:
        version = str(served.client.Version(cri.VersionRequest()).runtime_version)
        with results.part("verbs"):
            results.add(MEMORY, [memory.idle(served), memory.with_a_log(served, ref, folder / "log")])
            results.add(MEMORY, [figures.summarize("start to ready", [served.startup * 1000], must=1000)])
            results.add(OWN, verbs.measure(served, str(engine.socket), ref, rounds))
            results.add(CPU, cpu.measure(served, engine, ref, max(1, rounds // 3)))
            results.add(LOGS, [logs.measure_latency(served, ref, folder / "words")])
    with results.part("what clients see"), serve(folder / "j", engine.url, *none, timed=False) as served:
        results.add(CREATES, creates.measure(served, engine.socket, ref, folder / "mounts", few))
        results.add(READS, reads.measure_status(served, ref, folder / "bare"))
    with results.part("memory, statistics and events"), serve(folder / "b", engine.url, *none) as served:
        results.add(MEMORY, [memory.growth(served, ref, pods)])
        results.add(STATS, stats.measure(served, ref, engine.pid))
        results.add(STATS, events.measure(f"unix://{folder}/b/crishim.sock", engine.url, ref, folder / "ends"))
    with results.part("lists"), serve(folder / "c", "simulated:", *none) as served:
        results.add(LISTS, reads.measure_lists(served, "busybox", (10, 100, 500, 1000)))
    with results.part("idle pods"), serve(folder / "d", engine.url, *none) as served:
        results.add(CPU, idle.measure(served, engine.pid, ref, idle_seconds))
    with results.part("logs"):
        with serve(folder / "e", "simulated:", *none) as served:
            spools = folder / "e" / "run" / "simulated" / "containers"
            results.add(LOGS, logs.measure_passing(served, "busybox", spools, megabytes=20))
        with serve(folder / "f", "simulated:", *none) as served:
            results.add(LOGS, logs.measure_idle(served, "busybox"))
        results.add(LOGS, logs.measure_writer())
    with results.part("embedded network"), serve(folder / "g", engine.url, "--network", "embedded") as served:
        results.add(OWN, verbs.measure_embedded(served, ref, few))
    with results.part("pods without a process"):
        results.add(CARRIED, anchored.measure(engine, folder / "i", few))
    with results.part("containerd beside it"):
        results.add(CARRIED, containerd.measure(folder / "containerd", few))
    with results.part("pod network"):
        results.add(NETWORK, network.measure(folder / "network"))
    with results.part("exec and port-forward"), serve(folder / "h", engine.url, *none) as served:
        results.add(STREAMING, streaming.measure(served, engine, folder / "streams"))
    with results.part("critest's benchmark"):
        results.add(CRITEST, judge.measure(engine, folder / "judge"))
    return version


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
