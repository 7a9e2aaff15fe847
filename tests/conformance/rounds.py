"""The rounds of `make soak`: critest in three orders, over WebSocket, and twice at once against one server.

Judged by ``expected.toml`` as the matrix is.  What each round found is kept in the cache's folder ``soak``, from where
``soak_page`` takes it into ``docs/``.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance import cache, critest, verdict
from tests.conformance.critest import Spec
from tests.conformance.results import EngineIdentity
from tests.conformance.verdict import Expected

WEBSOCKET = ("-websocket-exec", "-websocket-attach", "-websocket-portforward")
TOGETHER = "two-at-once"
COUNTS = "counts"
"""How the name of what is no round of critest begins: a piece of the project's own tests with their full counts."""

FIXED_PORTS = {
    "[k8s.io] Networking runtime should support networking runtime should support port mapping with host port and "
    "container port [Conformance]": "maps port 12000 of the host",
    "[k8s.io] Streaming runtime should support streaming interfaces runtime should support portforward "
    "[Conformance]": "listens on port 12001 of the host",
    "[k8s.io] Streaming runtime should support streaming interfaces runtime should support portforward in host "
    "network": "listens on port 12002 of the host, and its web server on 12003",
}
"""Specs that take a port of the host that is a constant of theirs (cri-tools, pkg/validate/consts.go)."""
SERIAL = "critest marks it Serial: it pulls and removes images, or listens to all pods, by names that each run shares"
BENCHMARK = "the benchmarks pull and remove the same images"


@dataclass(frozen=True)
class Round:
    """One test of the soak."""

    name: str
    flags: Sequence[str] = ()
    """More flags for critest."""


ROUNDS = (
    *(Round(f"seed-{number}") for number in (1, 2, 3)),
    Round("websocket", WEBSOCKET),
    Round(TOGETHER),
)


def seed_of(base: int, number: int) -> int:
    """The seed of a session's round: all follow from the one that is printed.  Within 1 and 2^31 - 1."""
    return (base + number - 1) % (2**31 - 1) + 1


def alone(names: Collection[str], serial: Collection[str]) -> dict[str, str]:
    """The specs that cannot run in two critests at the same time whatever the server is, and why.

    ``names``: all specs; ``serial``: those that critest marks.  Raises ValueError when one of ours is no spec.
    """
    if unknown := FIXED_PORTS.keys() - set(names):
        raise ValueError(f"no specs of this critest: {', '.join(sorted(unknown))}")
    benchmarks = {name: BENCHMARK for name in names if "benchmark" in name}
    return benchmarks | dict.fromkeys(serial, SERIAL) | FIXED_PORTS


def together(endpoint: str, seeds: tuple[int, int], place: Path, left_out: Collection[str]) -> list[list[Spec]]:
    """Two critests at once against one server: the first runs all specs, the second all but ``left_out``.

    Raises CritestError as ``critest.run`` does.
    """
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(critest.run, endpoint, seeds[0], place / "first")
        second = pool.submit(critest.run, endpoint, seeds[1], place / "second", (), left_out)
        return [first.result(), second.result()]


def wrong(engine: EngineIdentity, expected: Expected, specs: Sequence[Spec]) -> list[str]:
    """What is not as the list says; on an engine that it does not name nothing is."""
    if not expected.judges(engine.key):
        return []
    found = []
    for spec in specs:
        reason = expected.reason(engine.key, spec.name)
        if words := verdict.judge(spec, reason):
            found.append(f"{spec.name}: {words}")
    return sorted(found)


@dataclass(frozen=True)
class Found:
    """What became of a round, or of the counts, on an engine."""

    engine: EngineIdentity
    name: str
    crishim: str
    """The commit that was judged; ``+`` behind it when the tree had changes."""
    seeds: Sequence[int]
    seconds: float
    states: Mapping[str, int]
    """How many ended in which state."""
    wrong: Sequence[str]
    """What was not as expected, one line each."""


def make(
    engine: EngineIdentity, name: str, commit: str, seeds: Sequence[int], seconds: float, runs: Sequence[Sequence[Spec]]
) -> Found:
    """Judge a round's runs by the list in the tree."""
    specs = [spec for run in runs for spec in run]
    states = dict(sorted(Counter(spec.state for spec in specs).items()))
    lines = wrong(engine, verdict.load(), specs)
    return Found(engine, name, commit, list(seeds), round(seconds, 1), states, lines)


def save(found: Found) -> Path:
    """Keep it in the cache, in place of the former one of its name and engine."""
    file = cache.folder("soak", f"{found.engine.key}.{found.name.replace('/', '-')}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(encode(found), indent=1) + "\n")
    return file


def load_all() -> list[Found]:
    """The cache's, by engine and name."""
    return [decode(json.loads(file.read_text())) for file in sorted(cache.folder("soak").glob("*.json"))]


def encode(found: Found) -> dict[str, Any]:
    """As JSON can hold it."""
    return dataclasses.asdict(found)


def decode(document: dict[str, Any]) -> Found:
    """The opposite of ``encode``.  Raises TypeError, KeyError on another shape."""
    return Found(**(document | {"engine": EngineIdentity(**document["engine"])}))
