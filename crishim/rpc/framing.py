"""The pieces of protobuf's wire format written by hand: a length-delimited field, and a number.

A message that holds only repeated messages is the concatenation of its fields, so that a list can be answered by
joining the ready bytes of its items. (Protocol Buffers, "Encoding": tag = field number << 3 | 2, then the
length as a varint.)
"""

from __future__ import annotations

_LENGTH_DELIMITED = 2


def varint(value: int) -> bytes:
    """A number ≥ 0 in groups of seven bits, lowest first; all but the last with the eighth bit set."""
    if value < 0:
        raise ValueError(f"a length cannot be negative: {value}")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(at: int, value: int) -> bytes:
    """A number ≥ 0 as field `at`. 0 is what a field holds that is not there."""
    return varint(at << 3) + varint(value)


def field_head(number: int, length: int) -> bytes:
    """What stands before a body of so many bytes that is the length-delimited field `number`."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(length)


def field(number: int, body: bytes) -> bytes:
    """`body` as the length-delimited field `number` (a message, a string, or bytes)."""
    return field_head(number, len(body)) + body
