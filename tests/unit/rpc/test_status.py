from __future__ import annotations

import grpc
from hypothesis import given
from hypothesis import strategies as st

from crishim.errors import Kind
from crishim.rpc.status import CODES, WIRE_LIMIT, wire_text


def test_every_kind_has_the_code_of_its_name() -> None:
    assert {kind: code.name for kind, code in CODES.items()} == {kind: kind.value for kind in Kind}
    assert grpc.StatusCode.OK not in CODES.values()


@given(st.text(max_size=3000))
def test_a_text_is_whole_or_cut_to_the_limit(text: str) -> None:
    wire = wire_text(text)
    assert len(wire.encode()) <= WIRE_LIMIT
    if len(text.encode("utf-8", "backslashreplace")) <= WIRE_LIMIT:
        assert wire.encode() == text.encode("utf-8", "backslashreplace")


def test_a_cut_falls_between_two_characters_and_keeps_the_beginning() -> None:
    for shift in range(4):
        text = "RegistryUnavailable: " + "a" * shift + "€" * 2000
        wire = wire_text(text)
        assert wire.startswith("RegistryUnavailable: ")
        assert wire.endswith("€ … (cut; the log has all of it)")
        assert "\ufffd" not in wire


def test_undecodable_bytes_of_a_file_name_are_shown_as_escapes() -> None:
    assert wire_text("no such file: caf\udce9") == "no such file: caf\\udce9"
