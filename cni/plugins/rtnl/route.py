"""The socket, and the attributes that rtnetlink has in the machine's byte order."""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence

from cni.plugins.nft.netlink import NETLINK_ROUTE, NLM_F_ACK, NLM_F_DUMP, Message, Netlink, NetlinkError, attribute

Request = tuple[int, int, bytes]
"""Type, flags and body of a message."""

_SOL_NETLINK = 270
_NETLINK_GET_STRICT_CHK = 12
_DUMPS = 8  # tries while what is listed changes


class Route(Netlink):
    """A socket in the network namespace of the calling thread.  Use as a context manager, in one thread."""

    def __init__(self, what: str = "the network") -> None:
        """`what`: what errors say was being talked to.  Raises NetlinkError."""
        super().__init__(NETLINK_ROUTE, what)
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_GET_STRICT_CHK, 1)  # the kernel filters what it lists

    def __enter__(self) -> Route:
        return self

    def change(self, requests: Sequence[Request]) -> None:
        """Send requests in one write.  The kernel does all of them, whatever it makes of those before.

        Raises NetlinkError with the first refusal.
        """
        self.send([(kind, flags | NLM_F_ACK, body) for kind, flags, body in requests])

    def change_unless(self, request: Request, *done: int) -> bool:
        """Send one request; an errno among `done` means that there is nothing to do.  Return whether it was done."""
        try:
            self.change([request])
        except NetlinkError as refusal:
            if refusal.errno in done:
                return False
            raise
        return True

    def dump(self, request: Request) -> list[Message]:
        """Ask for a list, again when it changed while it was told.  Raises NetlinkError."""
        kind, flags, body = request
        for _ in range(_DUMPS - 1):
            try:
                return self.send([(kind, flags | NLM_F_DUMP, body)])
            except NetlinkError as refusal:
                if refusal.errno != errno.EINTR:
                    raise
        return self.send([(kind, flags | NLM_F_DUMP, body)])


def u32(kind: int, value: int) -> bytes:
    """Encode 32 bits in the machine's order."""
    return attribute(kind, struct.pack("=I", value))


def u8(kind: int, value: int) -> bytes:
    """Encode 8 bits."""
    return attribute(kind, bytes((value,)))


def read_u32(payload: bytes | None) -> int:
    """Decode 32 bits in the machine's order; 0 for an attribute that is not there."""
    return struct.unpack_from("=I", payload)[0] if payload else 0
