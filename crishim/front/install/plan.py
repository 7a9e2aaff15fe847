"""What is to be installed: which runtimes get a twin, which do not and why, and the daemon.json that says so. Changes
nothing."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from crishim.engine.twins import twin_name
from crishim.engine.values import EngineFacts
from crishim.front.install import daemon_json
from crishim.front.install.engine_process import EngineProcess
from crishim.front.install.files import FOLDER, TwinFiles
from crishim.front.install.problems import FrontProblem
from crishim.front.twins import TwinConf

_OF_ENGINE = "io.containerd."
"""How names begin that engines give to their own shims."""
_BUILT_IN = "runc"
"""The runtime that engines know without being told."""
_PATH_LIMIT = 107  # unix(7): sun_path has 108 bytes, and an end mark


@dataclass(frozen=True, slots=True)
class Places:
    """Folders and sockets of a server."""

    state_dir: Path
    desk: Path
    """Where its fronts ask."""

    @property
    def programs(self) -> Path:
        """Folder of the twins' programs."""
        return self.state_dir / FOLDER

    @property
    def proof_desk(self) -> Path:
        """Where fronts ask that are being proven."""
        return self.desk.with_name("proof.sock")

    def check(self) -> None:
        """Raise FrontProblem where the front could not ask."""
        for path in (self.desk, self.proof_desk):
            if len(os.fsencode(path)) > _PATH_LIMIT:
                raise FrontProblem(f"{path} is too long for a unix socket ({_PATH_LIMIT} bytes): another --run-dir")


@dataclass(frozen=True, slots=True)
class Twin:
    """A runtime, and the front that is to stand before it."""

    runtime: str
    files: TwinFiles
    conf: TwinConf

    @property
    def name(self) -> str:
        """What the engine calls it."""
        return twin_name(self.runtime)


@dataclass(frozen=True, slots=True)
class Plan:
    """What installing means."""

    file: Path
    """The engine's daemon.json."""
    before: str | None
    """Its text; None: there is no such file."""
    after: str
    known: tuple[Twin, ...]
    """Twins that the file names already: their files are renewed."""
    fresh: tuple[Twin, ...]
    left: Mapping[str, str]
    """Runtimes that get none, and why."""

    def diff(self) -> str:
        """What changes in the file, for people."""
        return show_diff(self.file, self.before or "", self.after)


def show_diff(file: Path, before: str, after: str) -> str:
    """The change of a file as diff shows it; empty for none."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(file), str(file), lineterm="")
    return "\n".join(lines)


def read_text(file: Path) -> str | None:
    """The text of daemon.json; None if there is none. Raises FrontProblem."""
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FrontProblem(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FrontProblem(f"{file} is not UTF-8: the engine would not read it either") from error


def _check_default(facts: EngineFacts, file: Path, named: Collection[str]) -> None:
    """Raise FrontProblem where the engine's default runtime comes from a file that does not name it any more.

    An engine of 20.10 does not survive being told to read such a file (a nil pointer in `fillPlatformInfo`).
    """
    default = facts.default_runtime
    if default in named or default == _BUILT_IN or default.startswith(_OF_ENGINE):
        return
    raise FrontProblem(
        f"the engine's default runtime is {default}, which {file} does not name: it was changed since the engine read "
        "it, and an engine that reads it anew may end. Put that right, or restart the engine first"
    )


def make_plan(facts: EngineFacts, process: EngineProcess, places: Places, only: Collection[str] = ()) -> Plan:
    """Decide. `only`: names of the runtimes that are to get a twin; empty: all. Raises FrontProblem."""
    places.check()
    if process.adds_runtimes:
        raise FrontProblem(
            "the engine is started with --add-runtime, and then refuses runtimes in daemon.json: move those there first"
        )
    if unknown := set(only) - set(facts.runtimes):
        known = ", ".join(facts.runtimes)
        raise FrontProblem(f"the engine has no runtime {', '.join(sorted(unknown))}; it has {known}")
    file = process.daemon_json
    before = read_text(file)
    try:
        listed = daemon_json.listed(before or "")
        twins, left = [], {}
        for runtime in facts.runtimes:
            if only and runtime not in only:
                continue
            found = _twin_or_reason(runtime, facts, process, places)
            if isinstance(found, str):
                left[runtime] = found
            else:
                twins.append(found)
        fresh = tuple(twin for twin in twins if twin.name not in listed)
        for twin in set(twins) - set(fresh):
            if listed[twin.name] != {"path": str(twin.files.program)}:
                raise FrontProblem(
                    f"{file} has a runtime {twin.name} that is another's, and not {twin.files.program}: remove it first"
                )
        after = daemon_json.with_runtimes(before or "", {twin.name: str(twin.files.program) for twin in fresh})
        _check_default(facts, file, {*listed, *(twin.name for twin in fresh)})
    except daemon_json.NotEditable as error:
        raise FrontProblem(f"{file} cannot be changed: {error}") from error
    if not twins:
        reasons = "; ".join(f"{runtime}: {why}" for runtime, why in left.items())
        raise FrontProblem(f"the engine has no runtime that a front could stand before ({reasons})")
    known_ones = tuple(twin for twin in twins if twin not in fresh)
    return Plan(file, before, after, known_ones, fresh, left)


def _twin_or_reason(runtime: str, facts: EngineFacts, process: EngineProcess, places: Places) -> Twin | str:
    if runtime.startswith(_OF_ENGINE):
        return "is the engine's own name of a shim, not of a runtime"
    if runtime not in facts.programs:
        return "brings a shim of its own, which reads a container's configuration itself"
    program, *arguments = facts.programs[runtime]
    path = process.find_program(program)
    if path is None:
        return f"its program {program} is not there"
    name = twin_name(runtime)
    if "/" in name:
        return "its name cannot be a file's"
    return Twin(runtime, TwinFiles(places.programs / name), TwinConf(path, str(places.desk), tuple(arguments)))
