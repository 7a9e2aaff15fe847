"""What the front and the desk say to each other: one question and one answer per connection, then both close.

All integers are unsigned, 32 bit, big endian. A *part* is a length and as many bytes.

    question   "CRF1"  part verb  part id  part bundle  part config
    answer     "OK\\0\\0"  part config  part steps
               "NO\\0\\0"  part words

`verb` is `create` (of OCI's create, and of run and restore, which make a container, too) or `exec`; `id` the
container's, as the engine calls it; `bundle` the folder of the bundle (empty for exec). `config` is the JSON of the
bundle's config.json, or for exec that of the process (runtime-spec config.md, "Process"); in the answer, what is to be
there instead. `words` are UTF-8, for people: the engine passes them on.

`steps` is a little program that the front carries out, in a mount namespace of its own, before it becomes the runtime;
empty for nearly all. It consists of tokens, each ended by a NUL byte: a step's name and its arguments. A front that
does not know a step fails. The steps:

    tmpfs TARGET             an empty file system at the folder TARGET, for the mount points of what follows
    folder PATH              makes a folder
    file PATH                makes an empty file
    userns PATH              opens a user namespace (its pin), whose mapping the steps behind it use
    layer SOURCE TARGET      shows the folder SOURCE at TARGET, with shifted owners, without what is mounted below
    tree SOURCE TARGET       shows file or folder SOURCE with all that is mounted below it, which must be shiftable, too
    overlay OPTIONS TARGET   mounts an overlay at TARGET, with the options as mount(2) takes them (at most 4095 bytes)

Its mounts receive what is mounted on the machine later, and nothing of them is seen outside; they end with the
container.

Limits: the front gives up 5 s after it began, and refuses an answer above `LARGEST`.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass

MAGIC = b"CRF1"
OK, NO = b"OK\0\0", b"NO\0\0"
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
    """What it is told: the configuration that is to take the place of the engine's, and steps (see above)."""

    config: bytes
    steps: tuple[str, ...] = ()


def encode_question(question: Question) -> bytes:
    """The bytes that a front sends."""
    parts = (question.verb.encode(), question.id.encode(), question.bundle.encode(), question.config)
    return MAGIC + b"".join(map(_part, parts))


def encode_answer(answer: Answer) -> bytes:
    """The bytes of an answer. Raises ValueError for a step with a NUL byte, and for a part that is too long."""
    return OK + _part(answer.config) + _part(_steps(answer.steps))


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


def _steps(tokens: Sequence[str]) -> bytes:
    if any("\0" in token for token in tokens):
        raise ValueError("a step cannot contain a NUL byte")
    return b"".join(token.encode(errors="surrogateescape") + b"\0" for token in tokens)
