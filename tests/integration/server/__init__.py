"""The server whole: `crishim serve` in a process of its own, on a real engine, spoken to in gRPC."""

from __future__ import annotations

import pytest

# Before any of them is imported: their assertions are then as talkative as those in tests.
for name in ("churn", "pods", "residue", "serving", "waiting"):
    pytest.register_assert_rewrite(f"{__name__}.{name}")
