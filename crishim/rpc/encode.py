"""Values of `crishim.model` as messages, field by field: the way back of `crishim.rpc.decode`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)

_WIRE_NAMES = {"uid_mappings": "uidMappings", "gid_mappings": "gidMappings", "cdi_devices": "CDI_devices"}
"""The fields whose wire name is not in snake case."""


def encode(value: object, message: M) -> M:
    """Fill `message` from the model's value of the same name, and return it. None leaves a field unset."""
    cls: Any = type(value)  # classes are hashable, but not so to mypy
    for name, wire_name in _fields(cls):
        _put(message, wire_name, getattr(value, name))
    return message


@cache
def _fields(cls: Any) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, _WIRE_NAMES.get(f.name, f.name)) for f in fields(cls))


def _put(message: Message, name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, str | bool | int | enum.IntEnum):
        target = getattr(message, name)
        if isinstance(target, Message):  # a wrapped number: there, even when it is zero
            target.value = value  # type: ignore[attr-defined]
        else:
            setattr(message, name, value)
    elif isinstance(value, Mapping):
        getattr(message, name).update(value)
    elif isinstance(value, tuple):
        target = getattr(message, name)
        for item in value:
            if is_dataclass(item):
                encode(item, target.add())
            else:
                target.append(item)
    else:
        child = getattr(message, name)
        child.SetInParent()  # an empty message is not an absent one
        encode(value, child)
