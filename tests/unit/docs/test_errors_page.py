"""docs/errors.md is what the errors' docstrings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from crishim.docs.errors_page import advice, leaves, page
from crishim.errors import CRIError

ROOT = Path(__file__).parents[3]


def test_committed_page_is_fresh() -> None:
    committed = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert committed == page(), "run `python -m crishim.docs.errors_page > docs/errors.md`"


def test_page_has_every_error_once() -> None:
    headings = [line.removeprefix("### ") for line in page().splitlines() if line.startswith("### ")]
    assert sorted(headings) == sorted(leaf.__name__ for leaf in leaves())
    assert len(headings) == 35


def test_an_error_without_advice_is_noticed() -> None:
    class SilentError(CRIError):
        """Something went wrong."""

    with pytest.raises(ValueError, match="SilentError"):
        advice(SilentError)
