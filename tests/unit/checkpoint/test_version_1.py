"""Stores of version 1 are opened by every later version, with nothing set aside and every field as it was.

The records they hold are spelt out in `make.py` beside them, and again as plain JSON (`*.json`), which is
compared with what is read from the stores by means that know no dataclass: so a later change of the model that loses
a field cannot hide.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crishim.checkpoint.api import CheckpointStore
from crishim.checkpoint.codec import encode
from crishim.checkpoint.file import FileStore
from crishim.checkpoint.sqlite import SqliteStore

DATA = Path(__file__).parents[2] / "data" / "checkpoint-v1"


@pytest.mark.parametrize(("folder", "kind"), [("sqlite", SqliteStore), ("file", FileStore)])
async def test_opened_and_read_whole(folder: str, kind: type[Any], tmp_path: Path) -> None:
    shutil.copytree(DATA / folder, tmp_path / folder)
    store: CheckpointStore = kind(tmp_path / folder)
    await store.open()
    loaded = await store.load()
    assert loaded.set_aside == ()
    assert await store.get_value("cgroup driver") == "systemd"
    await store.close()
    assert sorted(record.config.hostname for record in loaded.records) == ["full", "new", "stopped"]
    for record in loaded.records:
        was = json.loads((DATA / f"{record.config.hostname}.json").read_bytes())
        now = json.loads(encode(record))
        assert _leaves(was) <= _leaves(now), record.config.hostname


def _leaves(value: object, path: str = "") -> set[tuple[str, str]]:
    """Every number, text and empty object with the way to it, but for version and checksum."""
    if isinstance(value, dict) and value:
        inner = [
            _leaves(part, f"{path}/{key}") for key, part in value.items() if path or key not in ("version", "crc32")
        ]
    elif isinstance(value, list) and value:
        inner = [_leaves(part, f"{path}/{number}") for number, part in enumerate(value)]
    else:
        return {(path, json.dumps(value))}
    return set().union(*inner)


def test_the_data_says_something() -> None:
    full = _leaves(json.loads((DATA / "full.json").read_bytes()))
    assert len(full) > 250
    assert json.loads((DATA / "full.json").read_bytes())["version"] == 1
