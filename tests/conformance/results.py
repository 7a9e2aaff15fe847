"""What a run found, kept as JSON: in the cache by each run, in ``docs/conformance.json`` by ``page``."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance import cache
from tests.conformance.critest import Spec
from tests.env.cache import ROOT
from tests.env.http_api import EngineApi

CONTAINERD_STORE = "io.containerd.snapshotter.v1"
"""The ``driver-type`` of an engine whose images containerd keeps (Docker API, GET /info, DriverStatus)."""

FRONT = "-front"
"""How the keys end of engines that are judged with the front of their runtime; without it, as in expected.toml."""

VIRTUAL = "vm-"
"""How the keys of results begin that the virtual machine gave; its Debian suite follows."""


@dataclass(frozen=True)
class EngineIdentity:
    """An engine as it describes itself."""

    key: str
    """Major version, with ``-containerd`` behind it where containerd keeps the images, and then ``-front`` where the
    runtime's front is there: as in expected.toml."""
    version: str
    api_version: str


def identify(api: EngineApi, *, front: bool = False) -> EngineIdentity:
    """Ask an engine who it is; ``front``: whether it is judged with the front.  Raises OSError, EngineApiError."""
    version, info = api.call("GET", "/version"), api.call("GET", "/info")
    store = "-containerd" if ["driver-type", CONTAINERD_STORE] in (info["DriverStatus"] or ()) else ""
    key = version["Version"].partition(".")[0] + store + FRONT * front
    return EngineIdentity(key, version["Version"], version["ApiVersion"])


@dataclass(frozen=True)
class Result:
    """One run of critest."""

    engine: EngineIdentity
    critest: str
    """The version of cri-tools."""
    crishim: str
    """The commit that was judged; ``+`` behind it when the tree had changes."""
    seed: int
    seconds: float
    specs: Sequence[Spec]

    def of_state(self, state: str) -> list[Spec]:
        """The specs in a state, by name."""
        return sorted((spec for spec in self.specs if spec.state == state), key=lambda spec: spec.name)


def encode(result: Result) -> dict[str, Any]:
    """As JSON can hold it."""
    return dataclasses.asdict(result)


def decode(document: dict[str, Any]) -> Result:
    """The opposite of ``encode``.  Raises TypeError, KeyError on another shape."""
    specs = [Spec(**spec) for spec in document["specs"]]
    return Result(**(document | {"engine": EngineIdentity(**document["engine"]), "specs": specs}))


def save(result: Result) -> Path:
    """Keep a result in the cache, in place of the engine's former one."""
    file = cache.folder("results", f"{result.engine.key}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(encode(result), indent=1) + "\n")
    return file


def load_all(folder: Path | None = None) -> list[Result]:
    """The cache's results, by engine."""
    files = sorted((folder or cache.folder("results")).glob("*.json"))
    return [decode(json.loads(file.read_text())) for file in files]


def commit() -> str:
    """The checkout's commit, ``+`` behind it when files outside docs differ; ``unknown`` where there is none."""
    try:
        git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        status = subprocess.run(
            [*git, "status", "--porcelain", "--", ".", ":!docs"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if status.stdout.strip() else "")


@contextlib.contextmanager
def keep_logs(place: Path, target: Path) -> Iterator[None]:
    """At the end copy what was logged below ``place`` to where it outlives the world, in place of the former run's."""
    try:
        yield
    finally:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for log in place.rglob("*.log"):
            shutil.copy(log, target / "-".join(log.relative_to(place).parts))
