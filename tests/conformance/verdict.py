"""What is expected of each engine (``expected.toml``), and the verdict on what came.

No spec fails unseen, and none stays listed once it passes: either is an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.critest import Spec
from tests.conformance.results import EngineIdentity

FILE = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True)
class Expected:
    """For each engine that is judged: the specs that do not pass there, and why."""

    reasons: Mapping[str, Mapping[str, str]]
    """Engine key → spec → reason."""

    def judges(self, engine: str) -> bool:
        """Whether critest decides on this engine; on unknown ones it is only reported."""
        return engine in self.reasons

    def reason(self, engine: str, spec: str) -> str | None:
        """Why the spec does not pass on the engine; None when it must pass."""
        return self.reasons.get(engine, {}).get(spec)


@dataclass(frozen=True)
class Judged:
    """What critest said of crishim on an engine."""

    engine: EngineIdentity
    specs: Mapping[str, Spec]
    expected: Expected


def load(file: Path = FILE) -> Expected:
    """Read the list.  Raises ValueError when it contradicts itself or a key is unknown."""
    return parse(tomllib.loads(file.read_text()))


def parse(document: Mapping[str, Any]) -> Expected:
    """Read the list's TOML; its keys are explained at its head.  Raises ValueError as ``load`` does."""
    if unknown := document.keys() - {"engines", "group"}:
        raise ValueError(f"unknown keys: {', '.join(sorted(unknown))}")
    reasons: dict[str, dict[str, str]] = {engine: {} for engine in document["engines"]}
    for group in document.get("group", ()):
        reason = _reason(group)
        if unknown := set(group.get("engines", ())) - reasons.keys():
            raise ValueError(f"{reason}: unknown engines: {', '.join(sorted(unknown))}")
        for engine in group.get("engines", reasons):
            for spec in group["specs"]:
                if spec in reasons[engine]:
                    raise ValueError(f"listed twice for {engine}: {spec}")
                reasons[engine][spec] = reason
    return Expected(reasons)


def _reason(group: Mapping[str, Any]) -> str:
    if unknown := group.keys() - {"reason", "issue", "engines", "specs"}:
        raise ValueError(f"unknown keys in a group: {', '.join(sorted(unknown))}")
    words = [group["reason"]] if "reason" in group else []
    words += [f"issue '{group['issue']}'"] if "issue" in group else []
    if not words:
        raise ValueError(f"a group without reason or issue: {group.get('specs')}")
    return ", ".join(words)


def judge(spec: Spec, reason: str | None) -> str | None:
    """What is wrong with a spec's outcome, given why it is listed (None: it is not); None when it is as it must be."""
    if reason is not None and spec.state == "passed":
        return f"passes, but is listed ({reason}): delete it from expected.toml"
    if reason is None and spec.state != "passed":
        return f"{spec.state}: {spec.message}"
    return None


def strangers(expected: Expected, names: Iterable[str]) -> list[str]:
    """Listed specs that critest does not have."""
    known = set(names)
    return sorted({spec for listed in expected.reasons.values() for spec in listed if spec not in known})
