"""What goes wrong on a client's connection. None of it reaches a caller of CRI."""

from __future__ import annotations


class ProtocolViolation(Exception):  # noqa: N818 - the noun says it
    """The client broke the protocol: the session ends. The text says how, for the log and the close reason."""


class Refused(Exception):  # noqa: N818 - an answer, told to the client
    """The request is answered with this status of HTTP instead of an upgrade."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        """`reason`: a line for the client and the log; it never holds anything that the client sent."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers
