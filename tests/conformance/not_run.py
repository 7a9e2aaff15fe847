"""What is not judged for want of a tool: said in pytest's summary, and a failure in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conformance.tools import ToolsMissingError

REASON = pytest.StashKey[str]()
"""Why something was not run, in a session's configuration."""


@contextmanager
def told(config: pytest.Config) -> Iterator[None]:
    """A test that misses a tool in the block is skipped, or fails in CI, and the report's end says why."""
    try:
        yield
    except ToolsMissingError as error:
        reason = f"conformance: not run ({error})"
    else:
        return
    config.stash[REASON] = reason
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def summarize(reporter: pytest.TerminalReporter) -> None:
    """The line at the report's end, if something was not run."""
    if reason := reporter.config.stash.get(REASON, None):
        reporter.section("conformance")
        reporter.line(reason)
