"""Header blocks: what clients compress is read, what would hurt is refused, what we write every reader understands."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.spdy_headers import (
    BLOCK_LIMIT,
    DICTIONARY,
    FIRST_EMPTY,
    NEXT_EMPTY,
    SMALL_TOTAL,
    HeaderReader,
)
from tests.unit.streaming.spdy_client import Client, block, feed_all

TEXT = st.text(st.characters(max_codepoint=255, exclude_characters="\0"), max_size=40)


def test_the_dictionary_is_the_specifications() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@pytest.mark.parametrize("small", [True, False])
def test_blocks_of_one_connection_refer_to_each_other(small: bool) -> None:
    client, reader = Client(), HeaderReader(small=small)
    for number in range(5):
        headers = {"streamtype": "data", "port": "80", "requestid": str(number)}
        assert reader.read(client.compress(block(headers))) == headers


@given(st.lists(st.dictionaries(TEXT, TEXT, max_size=5), max_size=8))
def test_any_headers_come_as_they_were(blocks: list[dict[str, str]]) -> None:
    client, reader = Client(), HeaderReader(small=True)
    for headers in blocks:
        assert reader.read(client.compress(block(headers))) == headers


def test_a_small_window_is_enough_for_all_that_it_allows() -> None:
    """A reference goes back as far as it can: over everything to the dictionary's beginning."""
    client, reader = Client(), HeaderReader(small=True)
    filler = {"a": bytes(range(1, 256)).decode("latin-1") * 3}
    size = len(block(filler))
    for _ in range(SMALL_TOTAL // size - 1):
        reader.read(client.compress(block(filler)))
    old = {"options": "head", "accept-charset": "x"}
    assert reader.read(client.compress(block(old))) == old
    with pytest.raises(ProtocolViolation, match="too many headers"):
        feed_all(reader.read, [client.compress(block(filler)) for _ in range(2)])


def test_of_several_values_the_first_counts() -> None:
    assert HeaderReader(small=True).read(Client().compress(block({"port": "80\x0081"}))) == {"port": "80"}


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        (b"", "cut short"),
        (b"\0\0", "cut short"),
        (struct.pack(">I", 1), "cut short"),
        (struct.pack(">II", 1, 0xFFFFFFFF), "cut short"),
        (struct.pack(">II", 1, 3) + b"abc", "cut short"),
        (struct.pack(">I", 0xFFFFFFFF), "more than 64"),
        (struct.pack(">I", 0) + b"x", "behind its end"),
        (struct.pack(">I", 2) + (struct.pack(">I", 1) + b"a") * 4, "twice"),
        (b"\0" * (BLOCK_LIMIT + 1), "more than 8192 bytes"),
        (b"\0" * (100 << 20), "more than 8192 bytes"),
    ],
)
def test_a_wrong_block_is_a_violation(plain: bytes, words: str) -> None:
    with pytest.raises(ProtocolViolation, match=words):
        HeaderReader(small=False).read(Client().compress(plain))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\x78", "cut short"),
        (zlib.compress(block({})), "not zlib with a dictionary"),
        (b"\x78\xf9\0\0\0\0" + zlib.compress(block({}), wbits=-15), "another dictionary"),
        (FIRST_EMPTY[:6] + b"\xff\xff\xff", "cannot be inflated"),
        (FIRST_EMPTY[:6] + zlib.compress(block({}), wbits=-15), "was ended"),
    ],
)
def test_what_is_not_spdys_compression_is_a_violation(raw: bytes, words: str) -> None:
    with pytest.raises(ProtocolViolation, match=words):
        HeaderReader(small=False).read(raw)


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_are_read_or_refused(raw: bytes) -> None:
    for head in (b"", FIRST_EMPTY[:6]):
        try:
            HeaderReader(small=True).read(head + raw)
        except ProtocolViolation:
            continue


def test_empty_blocks_are_whole_for_a_reader_that_waits_for_the_flush() -> None:
    inflate = zlib.decompressobj(zdict=DICTIONARY)
    assert inflate.decompress(FIRST_EMPTY) == b"\0\0\0\0"
    assert inflate.decompress(NEXT_EMPTY) == b"\0\0\0\0"
    assert FIRST_EMPTY.endswith(b"\0\0\xff\xff")
