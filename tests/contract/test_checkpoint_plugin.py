"""The example of a third party's checkpoint store: installed as a package, found by its name, held to the contract."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crishim.checkpoint.errors import UnknownStore
from crishim.checkpoint.registry import make_store, store_names
from crishim.testing.checkpoint_contract import CHECKS, DURABLE_CHECKS, Check, Place

EXAMPLE = Path(__file__).parents[2] / "examples" / "02-checkpoint-plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the example, from a copy so that the build leaves nothing in the tree."""
    source = tmp_path_factory.mktemp("plugin") / "source"
    shutil.copytree(EXAMPLE, source)
    target = source.with_name("installed")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    done = subprocess.run([*command, target, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture
def plugin(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(installed)


@pytest.mark.soak
@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("check", CHECKS + DURABLE_CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check, tmp_path: Path) -> None:
    await check(Place(factory="crishim_journal:JournalStore", state_dir=tmp_path))


@pytest.mark.usefixtures("plugin")
def test_found_by_its_name(tmp_path: Path) -> None:
    assert store_names() == ["file", "journal", "memory", "sqlite"]
    store = make_store("journal", tmp_path)
    assert type(store).__module__ == "crishim_journal"
    assert list(tmp_path.iterdir()) == []


def test_not_there_without_the_package(tmp_path: Path) -> None:
    with pytest.raises(UnknownStore, match="no checkpoint store 'journal'; there are: file, memory, sqlite"):
        make_store("journal", tmp_path)


@pytest.mark.parametrize("name", ["file", "memory", "sqlite"])
def test_stores_that_come_with_crishim(name: str, tmp_path: Path) -> None:
    assert type(make_store(name, tmp_path)).__module__ == f"crishim.checkpoint.{name}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "complaint"),
    [("no_such_module:Store", "cannot be loaded"), ("pathlib:NoStore", "cannot be loaded"), ("pathlib:Path", "is no")],
)
def test_a_broken_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, complaint: str) -> None:
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[crishim.checkpoint_stores]\nbroken = {target}\n")
    monkeypatch.syspath_prepend(os.fspath(tmp_path))
    with pytest.raises(UnknownStore, match=f"'broken' .*{complaint}"):
        make_store("broken", tmp_path)
