"""The check that a server may be killed at any moment of its writing."""

from __future__ import annotations

import asyncio
import os
import random
import sys

from crishim.testing.checkpoint_contract.place import Place, by_id
from crishim.testing.checkpoint_contract.records import make_id, revision_of

KILLS = 200 if os.environ.get("CRISHIM_SOAK") == "1" else 10
"""How often a writer is killed."""
_PATIENCE = 60.0
SANDBOXES = tuple(f"pod-{number}" for number in range(6))
"""Names of the sandboxes that are written."""
VALUE = "revision"
"""Key of the node's value that is written."""


def state_after(number: int, name: str) -> int | None:
    """What is in the store after an operation: a revision, or None where every fifth of a sandbox's deletes it.

    Not the same fifth for all: they are written in step, and a store that lost all would pass while all are deleted.
    """
    return None if name != VALUE and (number + SANDBOXES.index(name)) % 5 == 4 else number


async def check_kill_while_writing(place: Place) -> None:
    """Killed by SIGKILL at random moments: what was acknowledged is there, nothing is half, nothing is set aside.

    Each writer opens what the one before left, and one in five is killed before it has written much.
    """
    seed = random.randrange(1 << 30)  # noqa: S311 - told in the messages
    chance = random.Random(seed)  # noqa: S311 - to be repeated
    possible: dict[str, set[int | None]] = {name: {None} for name in (*SANDBOXES, VALUE)}
    operations = 0
    for number in range(KILLS):
        operations += await _kill_one_writer(place, chance, 1000 * (number + 1), possible)
        what = f"seed {seed}, kill {number}"
        async with place.store() as store:
            loaded = await store.load()
            value = await store.get_value(VALUE)
        assert loaded.set_aside == (), f"{what}: {loaded.set_aside}"
        records = by_id(loaded)
        found: dict[str, int | None] = {
            name: revision_of(records[make_id(name)]) if make_id(name) in records else None for name in SANDBOXES
        }
        found[VALUE] = None if value is None else int(value)
        for name, revision in found.items():
            assert revision in possible[name], f"{what}: {name} is at {revision}, not at one of {possible[name]}"
            possible[name] = {revision}
    assert operations > 10 * KILLS, f"seed {seed}: only {operations} operations in {KILLS} writers"


async def _kill_one_writer(
    place: Place, chance: random.Random, first: int, possible: dict[str, set[int | None]]
) -> int:
    """Run a writer, kill it, note in `possible` what may be in the store; returns how much it had finished."""
    after = chance.choice((0, 50, 100, 150, 200)) + chance.randrange(50)
    pause = chance.random() * 0.003
    writer = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "crishim.testing.checkpoint_contract.writer",
        place.factory,
        str(place.state_dir),
        str(first),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert writer.stdout is not None
    finished = 0
    try:
        async with asyncio.timeout(_PATIENCE):
            async for line in writer.stdout:
                word, name, number = line.decode().split()
                state = state_after(int(number), name)
                if word == "begin":
                    possible[name].add(state)
                else:
                    possible[name] = {state}
                    finished += 1
                if finished == after and writer.returncode is None:
                    after = -1
                    await asyncio.sleep(pause)
                    writer.kill()
            code = await writer.wait()
    finally:
        if writer.returncode is None:
            writer.kill()
            await writer.wait()
    assert code == -9, f"the writer ended by itself with {code}"
    return finished
