"""What the front and the desk say to each other: one question and one answer per connection, then both close.

All integers are unsigned, 32 bit, big endian. A *part* is a length and as many bytes.

    question   "CRF1"  part verb  part id  part bundle  part config
    answer     "OK\\0\\0"  part config
               "NO\\0\\0"  part words

`verb` is `create` (of OCI's create, and of run and restore, which make a container, too) or `exec`; `id` the
container's, as the engine calls it; `bundle` the folder of the bundle (empty for exec). `config` is the JSON of the
bundle's config.json, or for exec that of the process (runtime-spec config.md, "Process"); in the answer, what is to be
there instead. `words` are UTF-8, for people: the engine passes them on.

Limits: the front gives up 5 s after it began, and refuses an answer above `LARGEST`.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass

MAGIC = b"CRF1"
OK, NO = b"OK\0\0", b"NO\0\0"
STRANGER = "crishim knows no container"
"""How the words begin by which a server refuses a container that is not its own: they prove that it was asked."""
LARGEST = 64 << 20
"""Bytes of a part at most. A request of CRI has 16 MiB, which JSON's escapes can make several times as long."""
SHORTEST_LIMITS = (16, 128, 4096, LARGEST)
"""Bytes at most of the parts of a question: verb, id, bundle, config."""

_LENGTH = struct.Struct(">I")


class BadQuestion(Exception):  # noqa: N818 - what is wrong with it, in words that go back
    """What came is no question of a front's, or ended too early."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a front asks."""

    verb: str
    id: str
    bundle: str
    config: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What it is told: the configuration that is to take the place of the engine's."""

    config: bytes


def encode_question(question: Question) -> bytes:
    """The bytes that a front sends."""
    parts = (question.verb.encode(), question.id.encode(), question.bundle.encode(), question.config)
    return MAGIC + b"".join(map(_part, parts))


def encode_answer(answer: Answer) -> bytes:
    """The bytes of an answer. Raises ValueError for a configuration that is too long."""
    return OK + _part(answer.config)


def encode_refusal(words: str) -> bytes:
    """The bytes of a refusal."""
    return NO + _part(words.encode(errors="replace")[:4096])


async def read_question(reader: asyncio.StreamReader) -> Question:
    """The question that comes. Raises BadQuestion; whoever calls sees to it that it comes in time."""
    try:
        magic = await reader.readexactly(len(MAGIC))
        if magic != MAGIC:
            raise BadQuestion("this is not how a front of this version asks")
        verb, identity, bundle, config = [await _read_part(reader, limit) for limit in SHORTEST_LIMITS]
        return Question(verb.decode(), identity.decode(), bundle.decode(errors="surrogateescape"), config)
    except asyncio.IncompleteReadError:
        raise BadQuestion("the question ended too early") from None
    except UnicodeDecodeError:
        raise BadQuestion("the question is not text") from None


async def _read_part(reader: asyncio.StreamReader, limit: int) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > limit:
        raise BadQuestion(f"a part has {length} bytes, and may have {limit}")
    return await reader.readexactly(length)


def _part(content: bytes) -> bytes:
    if len(content) > LARGEST:
        raise ValueError(f"{len(content)} bytes are more than the front takes")
    return _LENGTH.pack(len(content)) + content
