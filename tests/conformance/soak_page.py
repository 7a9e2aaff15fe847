"""docs/soak.md: what `make soak` found, and on which commit.

``python -m tests.conformance.soak_page`` takes what the last rounds left in the cache into ``docs/soak.json`` (a round
without a result there keeps its former) and writes the page; a test compares the two.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import rounds
from tests.conformance.rounds import FIXED_PORTS, Found
from tests.env.cache import ROOT

DATA = ROOT / "docs" / "soak.json"
PAGE = ROOT / "docs" / "soak.md"

HEAD = """\
<!-- Made by `python -m tests.conformance.soak_page` from docs/soak.json; do not edit. -->
# Soak

`make soak` is run before an issue is closed, on all engines of the matrix: the project's own tests with their full
counts of rounds, kills and cancels (`counts`, in so many pieces), and Kubernetes' critest in three orders (`seed-1` to
`seed-3`), with exec, attach and port-forward over WebSocket instead of SPDY (`websocket`), and twice at once against
one server (`two-at-once`). A spec that does not pass is expected only where `tests/conformance/expected.toml` gives the
reason, a listed one that passes is unexpected, too; nothing is tried again. A part of it:
`tests/env/run.sh soak --engine 28 --part critest -- -k websocket`, or a piece of the counts: `--piece tests/usecase`
(`--list` names all, over 40 on the system's engine: of those that a row does not count none was run on its commit).

| engine | what | passed | failed | skipped | unexpected | commit | seeds | minutes |
| --- | --- | ---: | ---: | ---: | ---: | --- | --- | ---: |
"""

TOGETHER = """\

Of two critests at once the second leaves out what cannot run twice whatever the server is: the specs that critest
itself marks `Serial` (they pull and remove images, or listen to all pods, by names that every run shares), the
benchmarks (they remove the same images), and three that take a fixed port of the host:

"""


def page(found: Sequence[Found]) -> str:
    """The whole page in Markdown."""
    parts = [HEAD]
    for one in _rows(found):
        states = one.states
        failed = f"{states.get('failed', 0)} | {states.get('skipped', 0) + states.get('xfailed', 0)}"
        parts.append(
            f"| Docker {one.engine.version}{', containerd image store' * one.engine.key.endswith('-containerd')} "
            f"| {one.name} | {states.get('passed', 0)} | {failed} | {len(one.wrong)} | `{one.crishim}` "
            f"| {' '.join(map(str, one.seeds))} | {one.seconds / 60:.1f} |\n"
        )
    parts.append(TOGETHER)
    parts += [f"- {name.removeprefix('[k8s.io] ')}: {why}\n" for name, why in FIXED_PORTS.items()]
    parts.append("\n## What was not as expected\n")
    for one in found:
        if one.wrong:
            parts.append(f"\n### {one.name} on engine {one.engine.key}, commit `{one.crishim}`\n\n")
            parts += [f"- {line}\n" for line in one.wrong]
    if not any(one.wrong for one in found):
        parts.append("\nNothing.\n")
    return "".join(parts)


def _rows(found: Sequence[Found]) -> list[Found]:
    """What is shown: the pieces of an engine's counts that were run on one commit are one line."""
    rows: dict[tuple[str, str], Found] = {}
    pieces: Counter[tuple[str, str]] = Counter()
    for one in found:
        counted = one.name.startswith(f"{rounds.COUNTS} ")
        key = (one.engine.key, one.crishim if counted else one.name)
        pieces[key] += counted
        if counted and key in rows:
            states = dict(Counter(rows[key].states) + Counter(one.states))
            wrong, seconds = [*rows[key].wrong, *one.wrong], rows[key].seconds + one.seconds
            rows[key] = dataclasses.replace(rows[key], states=states, wrong=wrong, seconds=seconds)
        else:
            rows[key] = one
    return [
        dataclasses.replace(one, name=f"{rounds.COUNTS} ({pieces[key]})") if pieces[key] else one
        for key, one in rows.items()
    ]


def load_data(file: Path = DATA) -> list[Found]:
    """The committed results."""
    return [rounds.decode(entry) for entry in json.loads(file.read_text())] if file.exists() else []


def main() -> int:
    """Write both files."""
    known = {(one.engine.key, one.name): one for one in (*load_data(), *rounds.load_all())}
    found = [known[key] for key in sorted(known)]
    DATA.write_text(json.dumps([rounds.encode(one) for one in found], indent=1) + "\n")
    PAGE.write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
