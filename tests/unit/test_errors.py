"""The error family: kinds, messages, prefixes, and that each leaf tells its reader what to do."""

from __future__ import annotations

import pickle
import tomllib
from pathlib import Path

import pytest

import crishim
from crishim import errors
from crishim.errors import CRIError, EngineConflict, EngineError, InvalidArgument, Kind, UnsupportedField

ROOT = Path(__file__).parents[2]
LEAVES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, CRIError) and c is not CRIError]


def test_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert crishim.__version__ == project["version"]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda c: c.__name__)
def test_leaf_carries_kind_message_ids_and_advice(leaf: type[CRIError]) -> None:
    error = leaf("it broke", sandbox="4f")
    assert isinstance(error.kind, Kind)
    assert error.ids == {"sandbox": "4f"}
    assert str(error) == error.message
    assert error.message.endswith("it broke")
    assert "sandbox='4f'" in repr(error)
    assert "\n    Caller: " in (leaf.__doc__ or "")


def test_field_path_begins_the_message() -> None:
    error = InvalidArgument("must not be empty", field="config.metadata.name", sandbox="4f")
    assert str(error) == "config.metadata.name: must not be empty"
    assert error.field == "config.metadata.name"
    assert error.kind is Kind.INVALID_ARGUMENT
    assert str(InvalidArgument("no field")) == "no field"
    assert issubclass(UnsupportedField, InvalidArgument)


@pytest.mark.parametrize(
    ("leaf", "kind"),
    [
        (errors.RegistryUnavailable, Kind.UNKNOWN),
        (errors.SignatureValidationFailed, Kind.UNKNOWN),
        (errors.RROUnsupported, Kind.FAILED_PRECONDITION),
        (errors.ImageVolumeMountFailed, Kind.FAILED_PRECONDITION),
    ],
)
def test_messages_that_a_kubelet_recognises_begin_so_once(leaf: type[CRIError], kind: Kind) -> None:
    beginning = f"{leaf.__name__}: "
    assert str(leaf("no route")) == beginning + "no route"
    assert str(leaf(beginning + "no route")) == beginning + "no route"
    assert leaf("x").kind is kind


def test_engine_errors_take_the_kind_of_the_answer() -> None:
    assert EngineError("no").kind is Kind.UNKNOWN
    assert EngineError("no", kind=Kind.RESOURCE_EXHAUSTED).kind is Kind.RESOURCE_EXHAUSTED
    assert EngineError.kind is Kind.UNKNOWN, "an instance's kind must not change the class"
    assert EngineConflict("no").kind is Kind.FAILED_PRECONDITION
    assert EngineConflict("no", kind=Kind.ALREADY_EXISTS).kind is Kind.ALREADY_EXISTS


def test_an_unknown_outcome_is_not_a_refusal() -> None:
    assert not issubclass(errors.EngineTimeout, EngineError)
    assert not issubclass(errors.EngineUnavailable, EngineError)


def test_errors_survive_pickling() -> None:
    error = InvalidArgument("bad", field="config", sandbox="4f")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.field, again.ids) == ("config: bad", "config", {"sandbox": "4f"})
