"""Containers that prove a front: one that is rewritten, and one that is refused.

Both are of the embedded sandbox image, have no network, and are removed again.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase, ContainerSpec, EngineFacts
from crishim.errors import CRIError, EngineNotFound, InvalidArgument
from crishim.front.desk import Desk
from crishim.front.install.problems import FrontProblem
from crishim.front.wire import Answer, Question
from crishim.images.embedded import make_archive

NAME = "crishim-front-proof"
LABEL = "io.crishim.proof"
"""On the containers. They carry no label of a pod's, so that no server takes them for its own."""
_VARIABLE = "CRISHIM_FRONT_PROOF"


class _ProofDesk:
    """Refuses first, then adds a variable to the environment."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        self.asked: list[str] = []

    async def answer(self, question: Question) -> Answer:
        self.asked.append(question.id)
        if len(self.asked) == 1:
            raise InvalidArgument(f"no, says {self.token}")
        config = json.loads(question.config)
        config["process"].setdefault("env", []).append(f"{_VARIABLE}={self.token}")
        return Answer(json.dumps(config).encode())


async def prove(engine: Engine, facts: EngineFacts, runtime: str, desk_path: Path) -> None:
    """Have the engine start a container by `runtime`, whose front asks at `desk_path`, where nobody else listens.

    The first start is refused, and the engine must tell our words; the second must run what was answered. Raises
    FrontProblem with what is wrong.
    """
    proof = _ProofDesk()
    desk = Desk(desk_path, proof.answer)
    await desk.start()
    try:
        async with _container(engine, facts, runtime) as container_id:
            words = await _start_refused(engine, container_id)
            if not proof.asked:
                raise FrontProblem(f"a container of {runtime} was started, or failed, without the front: {words}")
            if proof.token not in words:
                raise FrontProblem(f"the engine does not pass on what a front of {runtime} says, but: {words}")
            try:
                await engine.start(container_id)
            except CRIError as error:
                raise FrontProblem(f"{runtime} cannot start a container: {error}") from error
            live = await engine.inspect(container_id)
            environ = await asyncio.to_thread(Path(f"/proc/{live.pid}/environ").read_bytes) if live.pid else b""
            if proof.asked != [container_id] * 2 or f"{_VARIABLE}={proof.token}".encode() not in environ.split(b"\0"):
                raise FrontProblem(f"a container of {runtime} runs, and is not what the front was told")
    finally:
        await desk.stop()


async def refused(engine: Engine, facts: EngineFacts, runtime: str) -> str:
    """What the engine says when a container that is nobody's is started by a fronted runtime.

    Raises FrontProblem if it starts.
    """
    async with _container(engine, facts, runtime) as container_id:
        return await _start_refused(engine, container_id)


async def _start_refused(engine: Engine, container_id: str) -> str:
    try:
        await engine.start(container_id)
    except CRIError as error:
        return str(error)
    return ""


@asynccontextmanager
async def _container(engine: Engine, facts: EngineFacts, runtime: str) -> AsyncIterator[str]:
    image = await asyncio.to_thread(make_archive, facts.architecture)
    try:
        await engine.inspect_image(image.tag)
    except EngineNotFound:
        await engine.load_image(image.tar)
    spec = ContainerSpec(image=image.tag, labels={LABEL: ""}, runtime=runtime, cgroupns_mode="host")
    container_id = await engine.create(f"{NAME}-{os.getpid()}-{secrets.token_hex(4)}", spec)
    try:
        yield container_id
    finally:
        await asyncio.shield(engine.remove(container_id))


async def users_of(engine: Engine, runtimes: set[str]) -> dict[str, bool]:
    """Ids of the containers of these runtimes, and whether each runs."""
    found = {}
    for container_id in await engine.list_containers():
        try:
            live = await engine.inspect(container_id)
        except EngineNotFound:
            continue
        if live.runtime in runtimes:
            found[container_id] = live.phase is ContainerPhase.RUNNING
    return found
