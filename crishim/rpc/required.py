"""Messages that a request must hold."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from crishim.errors import InvalidArgument
from crishim.rpc.decode import decode_field

T = TypeVar("T")


def need_field(request: Message, name: str, cls: type[T]) -> T:
    """The request's message field `name` as a value. Raises InvalidArgument where it is absent."""
    value = decode_field(request, name, cls)
    if value is None:
        raise InvalidArgument("is missing", field=name)
    return value
