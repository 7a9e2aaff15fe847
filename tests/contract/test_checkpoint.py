"""The checkpoint contract, on every store that comes with crishim."""

from __future__ import annotations

from pathlib import Path

import pytest

from crishim.testing.checkpoint_contract import CHECKS, DURABLE_CHECKS, Check, Place, behaviour, kills

DURABLE = {"sqlite": "crishim.checkpoint.sqlite:SqliteStore", "file": "crishim.checkpoint.file:FileStore"}
MEMORY = "crishim.checkpoint.memory:MemoryStore"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_memory(check: Check, tmp_path: Path) -> None:
    await check(Place(factory=MEMORY, state_dir=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
@pytest.mark.parametrize("check", CHECKS + DURABLE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("store", DURABLE)
async def test_durable(store: str, check: Check, tmp_path: Path) -> None:
    await check(Place(factory=DURABLE[store], state_dir=tmp_path))


@pytest.mark.parametrize(
    ("liar", "check", "words"),
    [
        ("Late", kills.check_kill_while_writing, "not at one of"),
        ("Torn", kills.check_kill_while_writing, r"seed \d+, kill \d+: \(SetAside"),
        ("Lagging", behaviour.check_cancelled_put_is_whole_or_none, None),
    ],
)
async def test_the_checks_notice(liar: str, check: Check, words: str | None, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=words):
        await check(Place(factory=f"tests.contract.liars:{liar}", state_dir=tmp_path))
