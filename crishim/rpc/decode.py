"""Requests as values of `crishim.model`, by the classes' own type hints.

For each class a plan is compiled once: a table from field number to a function that converts that field. The compiler
demands that message and class agree field by field, so that a field which nobody decodes is a failure of the program at
its first use (and of a test before), never a value dropped in silence. Only fields that are set are visited; for the
others the class's default is proto3's.

What the class cannot hold is refused with the field's path in the wire's own names: an enum value that CRI does not
know, bytes that are not UTF-8 where the engine takes text, and messages for Windows. Whether a value makes sense is not
judged here. Field numbers that this version of CRI does not have are skipped, as protobuf means it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, NoReturn, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from crishim.cri.v1 import runtime_pb2
from crishim.errors import InvalidArgument

T = TypeVar("T")
Convert = Callable[[Any], Any]

FOR_WINDOWS = frozenset(
    {("PodSandboxConfig", "windows"), ("ContainerConfig", "windows"), ("UpdateContainerResourcesRequest", "windows")}
)
"""The fields of requests that have no place in the model: refused when they are set."""

_WINDOWS = "is for nodes that run Windows, and this one runs Linux"


class _RefusedError(Exception):
    """A value that the model cannot hold; each level adds its part of the path on the way up."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = ""

    def below(self, part: str) -> _RefusedError:
        """The same refusal, seen from one level further up; `part` is a field's name or an index in brackets."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{part}{joint}{self.path}"
        return self


def decode(message: Message, cls: type[T], *, at: str = "") -> T:
    """The message as the model's class of the same name.

    `at` is the message's own path in its request (`config`), for the errors. InvalidArgument for what the class cannot
    hold; TypeError where message and class do not belong together, which is a fault of the program.
    """
    if message.DESCRIPTOR.name != cls.__name__:
        raise TypeError(f"a {message.DESCRIPTOR.name} is not a {cls.__name__}")
    try:
        value: T = _plan(cast(Any, cls))(message)  # a class is hashable, but not so to mypy
    except _RefusedError as refused:
        path = refused.below(at).path if at else refused.path
        raise InvalidArgument(refused.reason, field=path) from None
    return value


def decode_field(request: Message, name: str, cls: type[T]) -> T | None:
    """The request's message field `name` as a value, None where it is absent. Raises what `decode` raises."""
    return decode(getattr(request, name), cls, at=name) if request.HasField(name) else None


def refuse_windows(request: Message) -> None:
    """Raise InvalidArgument if the request itself has its part for Windows set; `decode` looks at messages below."""
    for field, _ in request.ListFields():
        if (request.DESCRIPTOR.name, field.name) in FOR_WINDOWS:
            raise InvalidArgument(_WINDOWS, field=field.name)


@cache
def _plan(cls: type[Any]) -> Convert:
    """The function that makes a `cls` of its message."""
    descriptor: Descriptor = runtime_pb2.DESCRIPTOR.message_types_by_name[cls.__name__]
    hints = get_type_hints(cls)
    by_name = {_model_name(field.name): field for field in descriptor.fields}
    table: dict[int, tuple[str, Convert]] = {}
    for model_field in fields(cls):
        if model_field.name not in by_name:
            raise TypeError(f"{cls.__name__}.{model_field.name} is no field of the message")
        field = by_name.pop(model_field.name)
        table[field.number] = (model_field.name, _converter(field, hints[model_field.name]))
    for name, field in by_name.items():
        if (descriptor.name, field.name) not in FOR_WINDOWS:
            raise TypeError(f"{cls.__name__} has no place for the message's field {field.name}")
        table[field.number] = (name, _refuse)

    def convert(message: Message) -> Any:
        arguments = {}
        for field, value in message.ListFields():
            name, converter = table[field.number]
            try:
                arguments[name] = converter(value)
            except _RefusedError as refused:
                raise refused.below(field.name) from None
        return cls(**arguments)

    return convert


def _model_name(wire_name: str) -> str:
    """The model's name of a wire field: `uidMappings` is `uid_mappings`, `CDI_devices` is `cdi_devices`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", wire_name).lower()


def _converter(field: FieldDescriptor, hint: Any) -> Convert:
    """How a field that is set becomes what the hint says; TypeError where the two do not fit."""
    origin, arguments = get_origin(hint), get_args(hint)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if hint != Mapping[str, str]:
            raise TypeError(f"{field.full_name} is a map and {hint} is none")
        return dict
    if field.is_repeated:
        if origin is not tuple or arguments[1:] != (...,):
            raise TypeError(f"{field.full_name} is repeated and {hint} is no tuple of any length")
        return _each(_single(field, arguments[0]))
    if field.has_presence:
        if len(arguments) != 2 or arguments[1] is not NoneType:
            raise TypeError(f"{field.full_name} may be absent and {hint} cannot be None")
        return _single(field, arguments[0])
    return _single(field, hint)


def _single(field: FieldDescriptor, hint: Any) -> Convert:
    """How one value of the field becomes what the hint says."""
    message = field.message_type
    if message is not None:
        if is_dataclass(hint) and isinstance(hint, type) and hint.__name__ == message.name:
            return _plan(hint)
        if len(message.fields) == 1 and not is_dataclass(hint):
            return _unwrapped(message.fields[0], hint)
    elif field.enum_type is not None:
        if issubclass(hint, enum.IntEnum) and hint.__name__ == field.enum_type.name:
            return _member(hint)
    elif field.type == FieldDescriptor.TYPE_BYTES and hint is str:
        return _text
    elif _SCALARS.get(field.type) is hint:
        return _as_it_is
    raise TypeError(f"{field.full_name} cannot become {hint}")


def _each(converter: Convert) -> Convert:
    if converter is _as_it_is:
        return tuple

    def convert(values: Any) -> tuple[Any, ...]:
        converted = []
        for value in values:
            try:
                converted.append(converter(value))
            except _RefusedError as refused:
                raise refused.below(f"[{len(converted)}]") from None
        return tuple(converted)

    return convert


def _unwrapped(inner: FieldDescriptor, hint: Any) -> Convert:
    """For a message around one value, such as Int64Value: it is there so that the value may be absent."""
    converter = _single(inner, hint)
    name = inner.name

    def convert(message: Message) -> Any:
        try:
            return converter(getattr(message, name))
        except _RefusedError as refused:
            raise refused.below(name) from None

    return convert


def _member(cls: type[enum.IntEnum]) -> Convert:
    members = {int(member): member for member in cls}

    def convert(number: int) -> enum.IntEnum:
        member = members.get(number)
        if member is None:
            raise _RefusedError(f"{number} is no value of {cls.__name__}; known are 0 to {max(members)}")
        return member

    return convert


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        # Not the value itself: it may be a secret.
        raise _RefusedError(f"byte {error.start} is not UTF-8, and the engine carries text only") from None


def _as_it_is(value: Any) -> Any:
    return value


def _refuse(_value: Any) -> NoReturn:
    raise _RefusedError(_WINDOWS)


_SCALARS = {
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_INT32: int,
    FieldDescriptor.TYPE_INT64: int,
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_UINT32: int,
    FieldDescriptor.TYPE_UINT64: int,
}
