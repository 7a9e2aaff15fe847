"""The engine's daemon.json: runtimes are put in and taken out, and every other character stays where it is.

Pure: text in, text out. Python and the engine (Go) agree on what JSON is, but for what neither writes (NaN, a name
twice).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

KEY = "runtimes"
DEFAULT = "default-runtime"
_BLANKS = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\n([ \t]+)")
_DEFAULT_INDENT = "  "


class NotEditable(ValueError):  # noqa: N818 - one line for people
    """The file is nothing that runtimes could be put into; the words say what is wrong."""


@dataclass(frozen=True, slots=True)
class Member:
    """A name and its value in an object of the text, by their places."""

    name: str
    start: int
    value_start: int
    end: int


@dataclass(frozen=True, slots=True)
class Object:
    """An object of the text: from its `{` to behind its `}`."""

    start: int
    end: int
    members: tuple[Member, ...]

    def get(self, name: str) -> Member | None:
        """The member of that name; None for none."""
        return next((member for member in self.members if member.name == name), None)


def listed(text: str) -> dict[str, Any]:
    """The runtimes that the file names. Raises NotEditable."""
    if not text.strip():
        return {}
    top = _read_top(text)
    found = top.get(KEY)
    if found is None:
        return {}
    _read_runtimes(text, found)
    return dict(json.loads(text[found.value_start : found.end]))


def default_runtime(text: str) -> str:
    """The default runtime that the file names; "" for none. Raises NotEditable."""
    found = _read_top(text).get(DEFAULT) if text.strip() else None
    value = json.loads(text[found.value_start : found.end]) if found is not None else None
    return value if isinstance(value, str) else ""


def with_runtimes(text: str, paths: Mapping[str, str]) -> str:
    """The text with these runtimes, name to program, at the end of those that are there. Raises NotEditable."""
    if not paths:
        return text
    if not text.strip():
        text = "{\n}\n"
    top = _read_top(text)
    found = top.get(KEY)
    if found is None:
        text = _insert(text, top, KEY, "{}", _indent(text))
        return with_runtimes(text, paths)
    runtimes = _read_runtimes(text, found)
    for name, path in paths.items():
        if runtimes.get(name) is not None:
            raise NotEditable(f"there is a runtime {name} already")
        text = _insert(text, runtimes, name, json.dumps({"path": path}), _indent(text))
        found = _read_top(text).get(KEY)
        assert found is not None, "it was put in just now"
        runtimes = _read_runtimes(text, found)
    return text


def without_runtimes(text: str, names: Collection[str]) -> str:
    """The text without these runtimes; an object of none stays, so that the engine takes note. Raises NotEditable."""
    for name in names:
        found = _read_top(text).get(KEY) if text.strip() else None
        if found is None:
            return text
        runtimes = _read_runtimes(text, found)
        if (member := runtimes.get(name)) is not None:
            text = _cut(text, runtimes, member)
    return text


def without_empty(text: str) -> str:
    """The text without the key for runtimes where there are none left. Raises NotEditable."""
    if not text.strip():
        return text
    top = _read_top(text)
    found = top.get(KEY)
    return text if found is None or _read_runtimes(text, found).members else _cut(text, top, found)


def _read_top(text: str) -> Object:
    start = _skip(text, 0)
    if not text.startswith("{", start):
        raise NotEditable("it is no JSON object")
    top = _read_object(text, start)
    if _skip(text, top.end) != len(text):
        raise NotEditable(f"something follows the JSON object, at character {top.end}")
    return top


def _read_runtimes(text: str, found: Member) -> Object:
    if not text.startswith("{", found.value_start):
        raise NotEditable(f"{KEY} is no JSON object")
    return _read_object(text, found.value_start)


def _read_object(text: str, start: int) -> Object:
    """Raises NotEditable where the text is no JSON."""
    decoder = json.JSONDecoder()
    members: list[Member] = []
    at = _skip(text, start + 1)
    try:
        while not text.startswith("}", at):
            if members:
                at = _skip(text, _expect(text, at, ","))
            key_start = at
            _expect(text, at, '"')
            name, at = decoder.raw_decode(text, at)
            value_start = _skip(text, _expect(text, _skip(text, at), ":"))
            _, end = decoder.raw_decode(text, value_start)
            members.append(Member(name, key_start, value_start, end))
            at = _skip(text, end)
    except ValueError as error:
        raise NotEditable(f"it is no JSON: {error}") from error
    names = [member.name for member in members]
    if twice := {name for name in names if names.count(name) > 1}:
        raise NotEditable(f"{', '.join(sorted(twice))} is there twice")
    return Object(start, at + 1, tuple(members))


def _expect(text: str, at: int, character: str) -> int:
    if not text.startswith(character, at):
        raise json.JSONDecodeError(f"Expecting {character!r}", text, at)
    return at + 1


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None, "it matches nothing, too"
    return match.end()


def _indent(text: str) -> str:
    """What the file indents by."""
    match = _INDENT.search(text)
    return match[1] if match else _DEFAULT_INDENT


def _insert(text: str, holder: Object, name: str, value: str, indent: str) -> str:
    entry = f"{json.dumps(name)}: {value}"
    if holder.members:
        last = holder.members[-1]
        gap = text[len(text[: last.start].rstrip(" \t\r\n")) : last.start]  # as the last one stands, so the new one
        return text[: last.end] + "," + gap + entry + text[last.end :]
    line = text[text.rfind("\n", 0, holder.start) + 1 : holder.start]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    return f"{text[: holder.start]}{{\n{outer}{indent}{entry}\n{outer}}}{text[holder.end :]}"


def _cut(text: str, holder: Object, member: Member) -> str:
    at = holder.members.index(member)
    if len(holder.members) == 1:
        return text[: holder.start] + "{}" + text[holder.end :]
    if at == 0:
        return text[: member.start] + text[holder.members[1].start :]
    return text[: holder.members[at - 1].end] + text[member.end :]
