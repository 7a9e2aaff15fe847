"""The compiled contract against the table of facts about CRI v1 (`tests/wire/cri-v1-wire.tsv`), in both directions.

Both sides are turned into rows `(kind, owner, name, number, type, flags)` and compared as sets, so that a missing row,
an extra one and a changed one all show by name.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from crishim.cri.v1 import runtime_pb2

Row = tuple[str, str, str, str, str, str]

TABLE = Path(__file__).parents[2] / "wire" / "cri-v1-wire.tsv"
CONTRACT = Path(__file__).parents[3] / "api" / "crishim" / "cri" / "v1" / "runtime.proto"
FILE = runtime_pb2.DESCRIPTOR
PACKAGE = "runtime.v1"
SCALARS = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in ("double", "float", "int32", "int64", "uint32", "uint64", "bool", "string", "bytes")
}


def local(name: str) -> str:
    assert name.startswith(f"{PACKAGE}."), name
    return name.removeprefix(f"{PACKAGE}.")


def type_of(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        if field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
            return f"map<{type_of(key)}, {type_of(value)}>"
        name = local(field.message_type.full_name)
    elif field.enum_type is not None:
        name = local(field.enum_type.full_name)
    else:
        name = SCALARS[field.type]
    return f"repeated {name}" if field.is_repeated else name


def flags_of(field: FieldDescriptor) -> str:
    options = field.GetOptions()
    return ",".join(flag for flag in ("deprecated", "debug_redact") if getattr(options, flag))


def enum_rows(enum: EnumDescriptor) -> Iterator[Row]:
    for value in enum.values:
        yield ("enum", local(enum.full_name), value.name, str(value.number), "", "")


def message_rows(message: Descriptor) -> Iterator[Row]:
    name = local(message.full_name)
    if not message.fields:
        yield ("message", name, "", "", "", "")
    for field in message.fields:
        yield ("field", name, field.name, str(field.number), type_of(field), flags_of(field))
    for enum in message.enum_types:
        yield from enum_rows(enum)
    for nested in message.nested_types:
        if not nested.GetOptions().map_entry:
            yield from message_rows(nested)


def compiled_rows() -> Iterator[Row]:
    yield ("package", FILE.package, "", "", "proto3", "")
    for service in FILE.services_by_name.values():
        for method in service.methods:
            streams = ["stream " if on else "" for on in (method.client_streaming, method.server_streaming)]
            kinds = [local(kind.full_name) for kind in (method.input_type, method.output_type)]
            yield ("rpc", service.name, method.name, "", f"{streams[0]}{kinds[0]} -> {streams[1]}{kinds[1]}", "")
    for message in FILE.message_types_by_name.values():
        yield from message_rows(message)
    for enum in FILE.enum_types_by_name.values():
        yield from enum_rows(enum)


@pytest.fixture(scope="module")
def facts() -> list[Row]:
    with TABLE.open(encoding="utf-8", newline="") as lines:
        header, *rows = csv.reader(lines, delimiter="\t")
    assert header == ["kind", "owner", "name", "number", "type", "flags"]
    return [(row[0], row[1], row[2], row[3], row[4], row[5]) for row in rows]


def test_table_is_whole(facts: list[Row]) -> None:
    counts = Counter(row[0] for row in facts)
    assert counts == {"package": 1, "rpc": 43, "field": 478, "message": 18, "enum": 95}
    assert len(set(facts)) == len(facts)


def test_contract_has_every_fact(facts: list[Row]) -> None:
    assert sorted(set(facts) - set(compiled_rows())) == []


def test_contract_has_nothing_else(facts: list[Row]) -> None:
    compiled = list(compiled_rows())
    assert sorted(set(compiled) - set(facts)) == []
    assert len(compiled) == len(facts)


def test_the_contract_says_what_each_thing_means() -> None:
    lines = [line.strip() for line in CONTRACT.read_text(encoding="utf-8").splitlines()]
    things = {number: line for number, line in enumerate(lines) if re.match(r"(message|enum|service|rpc) \w", line)}
    assert len(things) > 200
    assert [line for number, line in things.items() if not lines[number - 1].startswith("//")] == []


def test_contract_is_proto3_without_explicit_presence_or_oneofs() -> None:
    """The table has no column for them because CRI v1 has none; scalars therefore have no presence."""
    for message in FILE.message_types_by_name.values():
        assert list(message.oneofs) == [], message.full_name
        for field in message.fields:
            single_message = field.message_type is not None and not field.is_repeated
            assert field.has_presence == single_message, field.full_name
    assert not FILE.enum_types_by_name["Signal"].is_closed
