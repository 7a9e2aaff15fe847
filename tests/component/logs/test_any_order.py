"""Whatever is printed, rotated and killed in whatever order: the log says what the engine kept, each line once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.component.logs.node import LIMIT, Node, random_output


@pytest.mark.parametrize("part", range(4))
async def test_any_order_of_output_rotations_and_kills(tmp_path: Path, scaled: Callable[[int], int], part: int) -> None:
    rounds = scaled(1000)
    for seed in range(part, rounds if rounds == 1000 else 24, 4):
        rng = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        node = Node(folder, spool_size=rng.choice((1 << 12, 1 << 16, 1 << 20)))
        await node.begin()
        actions: list[Callable[[], Awaitable[None]]] = [
            node.rotate,
            node.kill_writer,
            node.kill_server,
            node.end_server,
        ]
        try:
            for _ in range(rng.randrange(2, 8)):
                for _ in range(rng.randrange(8)):
                    node.say(random_output(rng), rng.choice(("stdout", "stderr")))
                    if rng.random() < 0.3:
                        await asyncio.sleep(rng.random() * 0.004)
                [action] = rng.choices(actions, (3, 2, 2, 1))
                async with asyncio.timeout(LIMIT):
                    await action()
            await node.complete()
            node.check()
            assert not [note for note in node.notes if "missing" in note or "twice" in note]
        except BaseException:
            print(f"seed {seed}: {node.notes}")
            raise
        finally:
            await node.writer.close()
