"""The request model: what every class of it promises, and the JSON round trip on which checkpoint stores rely."""

from __future__ import annotations

import dataclasses
import enum
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from crishim import model

ROOT = Path(__file__).parents[3]
CLASSES = [getattr(model, name) for name in model.__all__ if dataclasses.is_dataclass(getattr(model, name))]
ENUMS = [getattr(model, name) for name in model.__all__ if issubclass(getattr(model, name), enum.Enum)]


def test_the_model_is_all_dataclasses_and_enums() -> None:
    assert len(CLASSES) == 29
    assert len(ENUMS) == 9
    assert len(model.__all__) == 38


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_classes_are_frozen_slotted_and_empty_by_default(cls: type) -> None:
    value = cls()
    assert not hasattr(value, "__dict__")
    with pytest.raises(TypeError):
        cls("positional")
    for field in dataclasses.fields(cls):
        assert not getattr(value, field.name), f"{field.name}: proto3's default is the empty value"
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, small enough that whole configs stay quick to draw."""
    arguments = get_args(hint)
    origin = get_origin(hint)
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(values(str), values(str), max_size=2)
    if arguments:
        return st.none() | values(arguments[0])
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{name: values(inner) for name, inner in hints.items()})
    if issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    return {bool: st.booleans(), int: st.integers(-(2**63), 2**64 - 1), str: st.text(max_size=5)}[hint]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_json_round_trip(cls: type) -> None:
    adapter: TypeAdapter[object] = TypeAdapter(cls)

    @settings(derandomize=True, max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(values(cls))
    def round_trip(value: object) -> None:
        assert adapter.validate_json(adapter.dump_json(value)) == value

    round_trip()


def test_secrets_of_credentials_do_not_show() -> None:
    auth = model.AuthConfig(
        username="ann", password="s1", auth="s2", identity_token="s3", registry_token="s4", server_address="reg"
    )
    shown = f"{auth!r} {auth}"
    assert "'ann'" in shown
    assert "'reg'" in shown
    assert "password=<hidden>" in shown
    assert not [secret for secret in ("s1", "s2", "s3", "s4") if secret in shown]


def test_absent_secrets_are_seen_to_be_absent() -> None:
    assert repr(model.AuthConfig(username="ann")) == "AuthConfig(username='ann', server_address='')"


def test_the_model_loads_neither_wire_nor_validation() -> None:
    code = "import sys, crishim.model; print(sorted({'grpc', 'google', 'pydantic'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"
