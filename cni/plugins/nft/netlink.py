"""A netlink socket and its messages, as far as packet filter, connection tracking and one route lookup need them.

Blocking, but the kernel answers while it is asked.  Layouts: netlink(7) and linux/netfilter/nfnetlink.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

NETLINK_ROUTE = 0
NETLINK_NETFILTER = 12

NLM_F_REQUEST = 0x001
NLM_F_ACK = 0x004
NLM_F_DUMP = 0x300
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
NLM_F_APPEND = 0x800

_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_NESTED = 0x8000
_TYPE_MASK = 0x3FFF
_SOL_NETLINK = 270
_NETLINK_CAP_ACK = 10
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_RECEIVE = 1 << 17  # bytes; a dump's messages are at most 32 KiB
_LISTINGS = 8  # tries while what is listed changes
_INTR = 0x10  # NLM_F_DUMP_INTR: what was dumped changed meanwhile


@dataclass(frozen=True, slots=True)
class Message:
    """One answer: its type, and what follows netlink's header."""

    type: int
    body: bytes


class NetlinkError(OSError):
    """The kernel's refusal, with its errno, and the number of the message that it refused."""

    def __init__(self, code: int, what: str, sequence: int = 0) -> None:
        super().__init__(code, f"{what}: {os.strerror(code)}")
        self.sequence = sequence


class Netlink:
    """A socket in the network namespace of the calling thread.  Use as a context manager, in one thread."""

    def __init__(self, protocol: int, what: str) -> None:
        """`what`: what errors say was being talked to.  Raises NetlinkError."""
        self._what = what
        self._sequence = 0
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
            self._socket.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)  # errors without a copy of the request
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        except OSError as error:
            raise NetlinkError(error.errno or 0, what) from error

    def __enter__(self) -> Netlink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, kind: int, body: bytes, flags: int = NLM_F_ACK) -> list[Message]:
        """Send one request and return all answers.  Raises NetlinkError."""
        return self.send([(kind, flags, body)])

    def dump_all(self, kind: int, body: bytes) -> list[Message]:
        """Ask for a list, again when what is listed changed meanwhile.  Raises NetlinkError."""
        for _ in range(_LISTINGS - 1):
            try:
                return self.ask(kind, body, NLM_F_DUMP)
            except NetlinkError as error:
                if error.errno != _EINTR:
                    raise
        return self.ask(kind, body, NLM_F_DUMP)

    def send(self, requests: list[tuple[int, int, bytes]]) -> list[Message]:
        """Send requests (type, flags, body) in one write and return all answers; the last must ask for one.

        Raises NetlinkError with the first refusal; its `sequence` is the index of the request.
        """
        first = self._sequence + 1
        parts = []
        for kind, flags, body in requests:
            self._sequence += 1
            parts.append(_HEADER.pack(16 + len(body), kind, flags | NLM_F_REQUEST, self._sequence, 0) + body)
        try:
            self._socket.send(b"".join(parts))
            return self._receive(first, dump=requests[-1][1] & NLM_F_DUMP == NLM_F_DUMP)
        except NetlinkError:
            raise
        except OSError as error:
            raise NetlinkError(error.errno or 0, self._what) from error

    def _receive(self, first: int, *, dump: bool) -> list[Message]:
        answers: list[Message] = []
        refused: NetlinkError | None = None
        interrupted = False
        while True:
            try:
                # Of a request that is no dump all answers are there when send returns.
                data = self._socket.recv(_RECEIVE, 0 if dump and refused is None else socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            ended = False
            for length, kind, flags, sequence, body in _split(data):
                if sequence < first or length < 16:
                    continue
                interrupted |= bool(flags & _INTR)
                if kind in (_NLMSG_ERROR, _NLMSG_DONE):
                    code = -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
                    if code > 0 and refused is None:
                        refused = NetlinkError(code, self._what, sequence - first)
                    ended |= kind == _NLMSG_DONE or dump
                else:
                    answers.append(Message(kind, body))
            if ended:
                break
        if refused is not None:
            raise refused
        if interrupted:
            raise NetlinkError(_EINTR, self._what)
        return answers


_EINTR = 4


def _split(data: bytes) -> Iterator[tuple[int, int, int, int, bytes]]:
    offset = 0
    while offset + 16 <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        if length < 16:
            return
        yield length, kind, flags, sequence, data[offset + 16 : offset + length]
        offset += (length + 3) & ~3


def attribute(kind: int, payload: bytes) -> bytes:
    """Encode one attribute, padded to four bytes."""
    return _ATTRIBUTE.pack(4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    """Encode an attribute that holds attributes."""
    return attribute(kind | _NESTED, b"".join(attributes))


def text(kind: int, value: str) -> bytes:
    """Encode a text, with the zero byte that the kernel expects."""
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    """Encode 32 bits in network order, as the packet filter has its numbers.  Negative ones as two's complement."""
    return attribute(kind, (value & 0xFFFFFFFF).to_bytes(4, "big"))


def attributes(data: bytes, offset: int = 0) -> dict[int, bytes]:
    """Parse attributes; of one that comes twice the last counts."""
    return dict(each_attribute(data, offset))


def each_attribute(data: bytes, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Parse attributes in order: type without flags, and payload."""
    while offset + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            return
        yield kind & _TYPE_MASK, data[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def string(payload: bytes) -> str:
    """Decode a text."""
    return payload.rstrip(b"\0").decode("utf-8", "surrogateescape")
