"""Header blocks of SPDY/3 (draft-mbelshe-httpbis-spdy): names and values in zlib with the specification's dictionary.

What comes in is inflated in as small a window as its kind of session allows. What goes out is written as stored blocks,
which need no compressor at all: a server of this kind never sends a header.
"""

from __future__ import annotations

import struct
import zlib

from crishim.streaming.errors import ProtocolViolation

_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_WORDS = [*_NAMES.split(), "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"]
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS) + _TEXT.encode()

_ZLIB_HEAD = 6
"""Bytes in front of the deflated ones: method and flags, then the dictionary's checksum."""
BLOCK_LIMIT = 8 << 10
"""Bytes of one block, inflated; those of Kubernetes have about 100."""
_HEADERS_LIMIT = 64
FULL_WINDOW = 15
"""log2 of the window that a client may refer back into."""
SMALL_WINDOW = 13
"""The same for a session with few headers: no reference can go further back than dictionary and blocks together."""
SMALL_TOTAL = (1 << SMALL_WINDOW) - len(DICTIONARY) - 300
"""Bytes of all blocks that fit behind the dictionary in the small window (zlib keeps some 260 of it to itself)."""


class HeaderReader:
    """Inflates the blocks of one connection, which are one stream of zlib."""

    def __init__(self, *, small: bool) -> None:
        """`small`: all blocks together have at most `SMALL_TOTAL` bytes; more is a violation."""
        self._head = b""
        self._left = SMALL_TOTAL if small else None
        # Without zlib's own head, which announces the sender's window, ours may be smaller than that.
        self._inflate = zlib.decompressobj(-(SMALL_WINDOW if small else FULL_WINDOW), zdict=DICTIONARY)

    def read(self, block: bytes) -> dict[str, str]:
        """The headers of one block; of several values the first. Raises ProtocolViolation."""
        if len(self._head) < _ZLIB_HEAD:
            if len(block) < _ZLIB_HEAD:
                raise ProtocolViolation("header block is cut short")
            self._head, block = block[:_ZLIB_HEAD], block[_ZLIB_HEAD:]
            method, flags = self._head[0], self._head[1]
            if method & 15 != zlib.DEFLATED or (method << 8 | flags) % 31 or not flags & 32:
                raise ProtocolViolation("header block is not zlib with a dictionary")
            if self._head[2:] != zlib.adler32(DICTIONARY).to_bytes(4, "big"):
                raise ProtocolViolation("header block is made with another dictionary")
        try:
            plain = self._inflate.decompress(block, BLOCK_LIMIT + 1)
        except zlib.error as error:
            raise ProtocolViolation(f"header block cannot be inflated: {error}") from None
        if len(plain) > BLOCK_LIMIT or self._inflate.unconsumed_tail:
            raise ProtocolViolation(f"header block has more than {BLOCK_LIMIT} bytes")
        if self._inflate.eof or self._inflate.unused_data:
            raise ProtocolViolation("header compression was ended")
        if self._left is not None:
            self._left -= len(plain)
            if self._left < 0:
                raise ProtocolViolation("too many headers for a session of this kind")
        return _parse(plain)


def _parse(plain: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 4
    if len(plain) < at:
        raise ProtocolViolation("header block is cut short")
    (count,) = struct.unpack_from(">I", plain)
    if count > _HEADERS_LIMIT:
        raise ProtocolViolation(f"header block has more than {_HEADERS_LIMIT} headers")
    for _ in range(count):
        texts = []
        for _ in range(2):
            if len(plain) < at + 4:
                raise ProtocolViolation("header block is cut short")
            (length,) = struct.unpack_from(">I", plain, at)
            at += 4
            if length > len(plain) - at:
                raise ProtocolViolation("header block is cut short")
            texts.append(plain[at : at + length].decode("latin-1"))
            at += length
        name, value = texts
        if name in headers:
            raise ProtocolViolation("header block names a header twice")
        headers[name] = value.partition("\0")[0]
    if at != len(plain):
        raise ProtocolViolation("header block has bytes behind its end")
    return headers


def _stored(data: bytes) -> bytes:
    return b"\x00" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data


NEXT_EMPTY = _stored(b"\0\0\0\0") + _stored(b"")
"""A block without headers. The empty block of deflate behind it says, as Z_SYNC_FLUSH does, that all is there: Go's
reader gives nothing out before it."""
FIRST_EMPTY = b"\x78\xf9" + zlib.adler32(DICTIONARY).to_bytes(4, "big") + NEXT_EMPTY
"""The same as the first block of its connection."""
