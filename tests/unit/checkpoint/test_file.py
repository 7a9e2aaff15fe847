"""The file store beyond the contract: what lies where, and what is done with what does not belong there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from crishim.checkpoint.api import Loaded
from crishim.checkpoint.errors import StoreUnavailable
from crishim.checkpoint.file import FileStore
from crishim.testing.checkpoint_contract.records import make_id, make_record


@pytest.fixture
async def store(tmp_path: Path) -> FileStore:
    store = FileStore(tmp_path)
    await store.open()
    await store.put(make_record("pod"))
    return store


async def reopened(store: FileStore) -> Loaded:
    await store.close()
    again = FileStore(store.path.parent)
    await again.open()
    try:
        return await again.load()
    finally:
        await again.close()


async def test_a_record_can_be_read_and_mended_by_hand(store: FileStore) -> None:
    path = store.path / "sandboxes" / f"{make_id('pod')}.json"
    value = json.loads(path.read_text())
    assert value["config"]["metadata"]["name"] == "pod"
    del value["crc32"]
    value["runtime_handler"] = "mended"
    path.write_text(json.dumps(value, indent=2))
    (record,) = (await reopened(store)).records
    assert record.runtime_handler == "mended"


async def test_halves_of_a_killed_server_go(store: FileStore) -> None:
    for folder in (store.path, store.path / "sandboxes"):
        (folder / "x.json.half").write_text("{")
    loaded = await reopened(store)
    assert (len(loaded.records), loaded.set_aside) == (1, ())
    assert not list(store.path.rglob("*.half"))


async def test_strangers_are_set_aside(store: FileStore) -> None:
    sandboxes = store.path / "sandboxes"
    (sandboxes / "README").write_text("x")
    (sandboxes / "folder.json").mkdir()
    os.rename(sandboxes / f"{make_id('pod')}.json", sandboxes / "other.json")
    loaded = await reopened(store)
    assert loaded.records == ()
    assert {aside.name for aside in loaded.set_aside} == {"README", "folder", "other"}
    assert all(Path(aside.kept_at).parent == store.path / "set-aside" for aside in loaded.set_aside)
    assert list(sandboxes.iterdir()) == []


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}', ""])
async def test_damaged_values(store: FileStore, content: str) -> None:
    await store.put_value("key", "value")
    (store.path / "node-values.json").write_text(content)
    loaded = await reopened(store)
    assert [aside.name for aside in loaded.set_aside] == ["node-values.json"]
    assert len(loaded.records) == 1


async def test_a_failed_write_is_told_and_leaves_the_old(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreUnavailable, match="No space left"):
            await store.put(make_record("pod", revision=1))
        with pytest.raises(StoreUnavailable, match="No space left"):
            await store.put_value("key", "value")
    assert (await store.load()).records == (make_record("pod"),)
    assert await store.get_value("key") is None
    assert not list(store.path.rglob("*.half"))
    await store.close()


async def test_file_and_folder_are_synced(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    await store.put(make_record("pod", revision=1))
    assert synced == [f"{make_id('pod')}.json.half", "sandboxes"]
    synced.clear()
    await store.delete(make_id("pod"))
    assert synced == ["sandboxes"]
    await store.close()
