"""What every error of crishim is: a kind out of gRPC's, a text for people, and ids for the log."""

from __future__ import annotations

import enum


class Kind(enum.Enum):
    """What sort of failure it is, in the words of gRPC's status codes; the value is the code's name."""

    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    UNAUTHENTICATED = "UNAUTHENTICATED"


class CRIError(Exception):
    """Base of every error that a caller of CRI may be told.

    `message` is for people, `ids` (such as `sandbox="4f…"`, `container="9c…"`) are for the log's fields.
    `str()` is the message.
    """

    kind: Kind = Kind.UNKNOWN
    prefix: str = ""
    """Text that a kubelet looks for at the very beginning of the message; put there once."""

    def __init__(self, message: str, **ids: str) -> None:
        if self.prefix and not message.startswith(self.prefix):
            message = self.prefix + message
        super().__init__(message)
        self.message = message
        self.ids = ids

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        ids = "".join(f", {name}={value!r}" for name, value in self.ids.items())
        return f"{type(self).__name__}({self.message!r}{ids})"
