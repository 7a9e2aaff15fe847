"""Makes this folder's stores. It was run once, when records had version 1; never run it again over them.

    python tests/data/checkpoint-v1/make.py

They are what a node holds after an upgrade: tests/unit/checkpoint/test_version_1.py opens them ever after.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from crishim.checkpoint.api import CheckpointStore
from crishim.checkpoint.codec import encode
from crishim.checkpoint.file import FileStore
from crishim.checkpoint.record import Phase
from crishim.checkpoint.sqlite import SqliteStore
from crishim.testing.checkpoint_contract.records import make_record

HERE = Path(__file__).parent
RECORDS = (
    make_record("full", containers=2),
    dataclasses.replace(make_record("stopped", phase=Phase.STOPPED), network=None, overhead=None, resources=None),
    dataclasses.replace(make_record("new", containers=0, phase=Phase.CREATING), netns_path="", started_at=0),
)


async def fill(store: CheckpointStore) -> None:
    await store.open()
    for record in RECORDS:
        await store.put(record)
    await store.put_value("cgroup driver", "systemd")
    await store.close()


if __name__ == "__main__":
    asyncio.run(fill(SqliteStore(HERE / "sqlite")))
    asyncio.run(fill(FileStore(HERE / "file")))
    for record in RECORDS:
        (HERE / f"{record.config.hostname}.json").write_bytes(encode(record))
