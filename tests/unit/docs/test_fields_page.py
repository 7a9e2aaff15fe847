"""The table of fields: no field of the messages is missing, and what is said of one is proven by a test that exists."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.docs.fields import FIELDS, FRONT, MESSAGES, Field
from crishim.docs.fields_page import cell, page
from crishim.engine.features import Feature
from crishim.errors import UnsupportedField

ROOT = Path(__file__).parents[3]
PATHS = {field.path: field for field in FIELDS}


def leaves(message: Descriptor, path: str, *, known: frozenset[str] = frozenset(PATHS)) -> Iterator[str]:
    """The paths of all fields below a message, but not below what the table has as a whole."""
    for field in message.fields:
        below = f"{path}.{field.name}"
        inner = field.message_type
        if inner is None or inner.GetOptions().map_entry or inner.name.endswith("Value") or below in known:
            yield below
        else:
            yield from leaves(inner, below, known=known)


def ancestors(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def test_committed_page_is_fresh() -> None:
    committed = (ROOT / "docs" / "fields.md").read_text(encoding="utf-8")
    assert committed == page(), "run `python -m crishim.docs.fields_page > docs/fields.md`"


def test_no_field_is_forgotten() -> None:
    found = {path for name in MESSAGES for path in leaves(pb.DESCRIPTOR.message_types_by_name[name], name)}
    assert found - PATHS.keys() == set(), "not in crishim/docs/fields.py"
    assert PATHS.keys() - found == set(), "in no message"


def test_a_forgotten_field_would_be_noticed() -> None:
    message = pb.DESCRIPTOR.message_types_by_name["ContainerConfig"]
    known = frozenset(PATHS) - {"ContainerConfig.tty", "ContainerConfig.linux.security_context.apparmor"}
    found = set(leaves(message, "ContainerConfig", known=known))
    assert found - known == {
        "ContainerConfig.tty",
        "ContainerConfig.linux.security_context.apparmor.profile_type",
        "ContainerConfig.linux.security_context.apparmor.localhost_ref",
    }


def test_a_field_has_one_place() -> None:
    assert len(PATHS) == len(FIELDS)
    assert [path for path in PATHS if PATHS.keys() & set(ancestors(path))] == []


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.path)
def test_what_is_in_force_is_proven(field: Field) -> None:
    if field.refused:
        assert not field.proof, "nothing to read back"
        assert field.note, "why is it refused?"
        return
    assert field.kept or field.needs is None or field.error is not None, "what happens without what it needs?"
    file, _, name = field.proof.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {node.name for node in tree.body if isinstance(node, functions)}, f"{file} has no {name}"


def test_cells() -> None:
    old, new = (1, 41), (1, 51)
    gated = Field(path="x", needs=Feature.IMAGE_MOUNTS, error=UnsupportedField)
    assert [cell(gated, api) for api in (old, (1, 47), (1, 48), new)] == ["no", "no", "yes", "yes"]
    assert cell(Field(path="x", needs=Feature.CDI_DEVICES, error=UnsupportedField), new) == "where switched on"
    assert [cell(f, old) for f in (Field(path="x"), Field(path="x", kept=True))] == ["yes", "kept"]
    assert cell(Field(path="x", error=UnsupportedField), new) == "no"
    assert cell(Field(path="x", error=UnsupportedField, front=FRONT), new) == "front"
    either = Field(path="x", needs=Feature.IMAGE_MOUNTS, error=UnsupportedField, front=FRONT)
    assert [cell(either, api) for api in (old, new)] == ["front", "yes"]
