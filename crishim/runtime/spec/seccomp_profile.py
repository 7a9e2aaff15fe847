"""A seccomp profile of the node (`Localhost`): read from its file and found valid before anything is made.

An engine looks into a profile at the container's start only, and not into all of it. Its form is that of Docker's and
Kubernetes' profiles (OCI runtime-spec, config-linux.md, "Seccomp", with `names` and the conditions of the engine).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NoReturn

from crishim.errors import InvalidArgument

LARGEST = 4 << 20
"""Bytes; the longest known profiles have tens of kilobytes."""

_REMEMBERED_SIZE = 512 << 10

_ACTIONS = frozenset(
    f"SCMP_ACT_{action}"
    for action in ("KILL", "KILL_PROCESS", "KILL_THREAD", "TRAP", "ERRNO", "TRACE", "ALLOW", "LOG", "NOTIFY")
)
_OPERATORS = frozenset(f"SCMP_CMP_{operator}" for operator in ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"))
_ARGUMENTS = 6  # of a system call


def read_profile(path: str, field: str) -> str:
    """The profile's text for the engine: that file's, and no other's. Raises InvalidArgument for a file that is
    missing, relative, not a regular one, too large, no JSON, or no profile."""
    if not os.path.isabs(path):
        raise InvalidArgument(f"{path!r} is not an absolute path", field=field)
    data = _read(path, field)
    try:
        # By content: a node's containers share a few profiles, and to look into a thousand rules takes milliseconds.
        return _remembered(data) if len(data) <= _REMEMBERED_SIZE else _check(data)
    except _UnfitError as error:
        raise InvalidArgument(f"{path} is {error}", field=field) from error


class _UnfitError(Exception):
    """Why the content of a file is no profile."""


def _check(data: bytes) -> str:
    try:
        profile = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _UnfitError(f"not JSON: {error}") from error
    for fault in _faults(profile):
        raise _UnfitError(f"not a seccomp profile: {fault}")
    return json.dumps(profile, separators=(",", ":"))


_remembered = lru_cache(maxsize=8)(_check)


def _read(path: str, field: str) -> bytes:
    try:
        # By an opener, whose descriptor is closed when this fails, as it does for a folder.
        with open(path, "rb", opener=_open_nonblocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidArgument(f"{path} is not a regular file", field=field)
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InvalidArgument(f"{path!r}: {getattr(error, 'strerror', None) or error}", field=field) from error
    if len(data) > LARGEST:
        raise InvalidArgument(f"{path} is larger than {LARGEST} bytes", field=field)
    return data


def _open_nonblocking(path: str, flags: int) -> int:
    """So that a fifo put there does not hold the server."""
    return os.open(path, flags | os.O_NONBLOCK)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _faults(profile: Any) -> Iterator[str]:
    """What is wrong with it, the worst first."""
    if not isinstance(profile, dict) or profile.get("defaultAction") not in _ACTIONS:
        yield "it has no defaultAction that is known"
        return
    if "architectures" in profile and not _texts(profile["architectures"] or []):
        yield "its architectures are no list of names"
    rules = profile.get("syscalls")
    if rules is not None and not isinstance(rules, list):
        yield "its syscalls are no list"
        return
    for number, rule in enumerate(rules or ()):
        if (fault := _fault_of(rule)) is not None:
            yield f"syscalls[{number}] {fault}"


def _fault_of(rule: Any) -> str | None:
    if not isinstance(rule, dict) or rule.get("action") not in _ACTIONS:
        return "has no action that is known"
    names, name = rule.get("names"), rule.get("name")
    if not (_texts(names) and names) and not (isinstance(name, str) and name):
        return "names no system call"
    if names and name:
        return "has both name and names"
    for argument in rule.get("args") or ():
        if not isinstance(argument, dict) or argument.get("op") not in _OPERATORS:
            return "compares an argument in an unknown way"
        index, value = argument.get("index"), argument.get("value", 0)
        if not (isinstance(index, int) and 0 <= index < _ARGUMENTS and isinstance(value, int) and value >= 0):
            return "compares an argument that a system call does not have"
    return None


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
