"""A process that writes to a store without end, and says before and after each operation what it is: to be killed.

    python -m crishim.testing.checkpoint_contract.writer MODULE:NAME STATE_DIR FIRST_REVISION

Lines on standard output: `begin NAME NUMBER` and `done NAME NUMBER`. Several sandboxes are written at the same time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from crishim.checkpoint.api import CheckpointStore
from crishim.testing.checkpoint_contract.kills import SANDBOXES, VALUE, state_after
from crishim.testing.checkpoint_contract.place import Place
from crishim.testing.checkpoint_contract.records import make_id, make_record


async def _write(store: CheckpointStore, name: str, first: int) -> None:
    for number in itertools.count(first):
        state = state_after(number, name)
        _say("begin", name, number)
        if name == VALUE:
            await store.put_value(VALUE, str(number))
        elif state is None:
            await store.delete(make_id(name))
        else:
            await store.put(make_record(name, revision=number, containers=number % 4))
        _say("done", name, number)


def _say(word: str, name: str, number: int) -> None:
    os.write(1, f"{word} {name} {number}\n".encode())


async def _main(factory: str, state_dir: str, first: str) -> None:
    async with Place(factory=factory, state_dir=Path(state_dir)).store() as store:
        await store.load()
        async with asyncio.TaskGroup() as group:
            for name in (*SANDBOXES, VALUE):
                group.create_task(_write(store, name, int(first)))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
