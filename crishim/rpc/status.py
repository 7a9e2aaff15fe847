"""The table kind → gRPC status, and what of an error's text goes on the wire."""

from __future__ import annotations

import grpc

from crishim.errors import Kind

CODES: dict[Kind, grpc.StatusCode] = {kind: grpc.StatusCode[kind.value] for kind in Kind}
"""Every kind is named after the code it becomes (`crishim.errors.Kind`)."""

WIRE_LIMIT = 2048
"""Bytes of an error's text on the wire: it travels in a trailer, and trailers share 8 KiB."""

_CUT = " … (cut; the log has all of it)"


def wire_text(text: str) -> str:
    """The text as it goes to the caller: at most `WIRE_LIMIT` bytes of UTF-8, cut between two characters.

    Characters that UTF-8 cannot carry (undecodable bytes of a file's name) are shown as escapes.
    """
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) > WIRE_LIMIT:
        kept = encoded[: WIRE_LIMIT - len(_CUT.encode())]
        return kept.decode("utf-8", "ignore") + _CUT
    return encoded.decode("utf-8")
