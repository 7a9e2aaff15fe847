"""Versions that a kubelet can read."""

from __future__ import annotations

import pytest

from crishim.runtime.node_status import _semver


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("20.10.24+dfsg1", "20.10.24+dfsg1"),
        ("28.5.2", "28.5.2"),
        ("29.0", "29.0.0"),
        ("24.0.7-rc.1", "24.0.7-rc.1"),
        ("19.03.01", "19.3.1"),
        ("28.5.2-", "28.5.2"),
        ("master-123", "0.0.0-unknown"),
        ("", "0.0.0-unknown"),
    ],
)
def test_the_version_is_a_semantic_one(told: str, version: str) -> None:
    assert _semver(told) == version
