"""Where settings come from: defaults < DOCKER_HOST < file < environment < flags. All that is wrong is told at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from crishim.config.settings import Settings
from crishim.config.together import contradictions

DEFAULT_FILE = Path("/etc/crishim/config.toml")
PREFIX = "CRISHIM_"
FILE_VARIABLE = "CRISHIM_CONFIG"
"""Names the file, like `--config`."""
DOCKER_HOST = "DOCKER_HOST"

_FOR_TESTS = ("CRISHIM_CACHE", "CRISHIM_SOAK", "CRISHIM_TEST_")
"""Beginnings of variables that steer the project's own tests and say nothing to a server."""


class ConfigProblems(Exception):  # noqa: N818 - a list of what is wrong, for people
    """What is wrong with the configuration, one line each: source, key, value and what is allowed."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True)
class Loaded:
    """The settings, and for each key where its value is from (absent: the default)."""

    settings: Settings
    origins: Mapping[str, str]


@dataclass
class _Source:
    """The values that one source gives, and how to name source and key to people."""

    label: str
    values: dict[str, Any] = field(default_factory=dict)
    spell: Callable[[str], str] = str
    """How the source writes a key."""

    def where(self, key: str) -> str:
        return f"{self.label} {self.spell(key)}"


def env_name(key: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + key.upper()


def flag_name(key: str) -> str:
    """The flag of a setting."""
    return "--" + key.replace("_", "-")


def load(flags: Mapping[str, str], environ: Mapping[str, str], config: Path | None = None) -> Loaded:
    """Put the sources together.

    `flags`: key to the flag's text, given ones only. `config`: the file that was named, which must exist then. Raises
    ConfigProblems with everything that is wrong in any source, also with values that a later one replaces.
    """
    problems: list[str] = []
    named = config or (Path(path) if (path := environ.get(FILE_VARIABLE)) else None)
    sources = [
        _read_file(named or DEFAULT_FILE, must_exist=named is not None, problems=problems),
        _read_environment(environ),
        _Source("flag", dict(flags), flag_name),
    ]
    if (host := environ.get(DOCKER_HOST)) and not any("engine" in source.values for source in sources):
        # A variable of another program: only what is used of it can be wrong for us.
        sources.insert(0, _Source("environment", {"engine": host}, lambda key: DOCKER_HOST))
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        problems += _check(source)
        merged |= source.values
        origins |= {key: source.where(key) for key in source.values}
    if problems:
        raise ConfigProblems(problems)
    settings = Settings.model_validate(merged)
    for key, reason in contradictions(settings):
        problems.append(
            f"{origins.get(key, f'default {key}')}: {str(getattr(settings, key))!r} is not allowed: {reason}"
        )
    if problems:
        raise ConfigProblems(problems)
    return Loaded(settings, origins)


def _read_environment(environ: Mapping[str, str]) -> _Source:
    source = _Source("environment", spell=env_name)
    for variable, value in environ.items():
        if variable.startswith(PREFIX) and variable != FILE_VARIABLE and not variable.startswith(_FOR_TESTS):
            source.values[variable.removeprefix(PREFIX).lower()] = value
    return source


def _read_file(path: Path, *, must_exist: bool, problems: list[str]) -> _Source:
    source = _Source(f"file {path}:")
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if must_exist:
            problems.append(f"file {path}: does not exist")
        return source
    except OSError as error:
        problems.append(f"file {path}: cannot be read: {error.strerror}")
        return source
    import tomllib  # most servers run without a file

    try:
        source.values = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"file {path}: is not TOML: {error}")
    return source


def _check(source: _Source) -> list[str]:
    try:
        Settings.model_validate(source.values)
    except ValidationError as error:
        return [_problem(source, detail) for detail in error.errors(include_url=False)]
    return []


def _problem(source: _Source, detail: Any) -> str:
    key = str(detail["loc"][0])
    where = source.where(key)
    if detail["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, Settings.model_fields, n=1)
        hint = f" Did you mean {source.spell(near[0])}?" if near else ""
        known = ", ".join(source.spell(name) for name in Settings.model_fields)
        return f"{where}: there is no such setting.{hint} There are: {known}"
    reason = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{where}: {source.values[key]!r} is not allowed: {reason}"
