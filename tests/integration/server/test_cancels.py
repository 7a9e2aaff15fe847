"""Callers that go away at random moments of every verb: trap 20."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
import pytest

from cni.testing import ScriptedPlugin
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import AsyncCRIClient
from tests.env.cni import CniDirs
from tests.env.engine import TestEngine
from tests.env.images import File, busybox
from tests.env.registry import Registry
from tests.integration.server.churn import Churn, broken_promises
from tests.integration.server.pods import listed_states
from tests.integration.server.residue import Quiet, assert_nothing_left, assert_store_empty, remove_anchors, unreleased
from tests.integration.server.serving import CALL, CrishimServer

pytestmark = [pytest.mark.engine, pytest.mark.soak]
WORKERS = 4
VERBS = {
    "RunPodSandbox",
    "UpdatePodSandboxResources",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "StartContainer",
    "UpdateContainerResources",
    "StopContainer",
    "RemoveContainer",
}


@dataclass
class Impatient:
    """Makes calls for a churn and breaks off a part of them: by a deadline, by a cancel, or by leaving altogether."""

    random: random.Random
    endpoint: str
    took: dict[str, float] = field(default_factory=dict)
    """Seconds that a verb took last when it was left alone."""
    broken_off: Counter[str] = field(default_factory=Counter)

    async def call(self, method: Callable[..., Any], request: Any) -> Any:
        """Make a call; about every other one is broken off at a random moment, if it has not ended by then."""
        verb = type(request).__name__.removesuffix("Request")
        loop = asyncio.get_running_loop()
        began = loop.time()
        if verb not in self.took or self.random.random() < 0.5:
            answer = await method(request, timeout=CALL)
            self.took[verb] = loop.time() - began
            return answer
        moment = self.random.uniform(0, self.took[verb] * 1.2)
        how = self.random.choice((self._by_deadline, self._by_cancel, self._by_leaving))
        try:
            return await how(method, verb, request, moment)
        except (grpc.RpcError, asyncio.CancelledError):
            self.broken_off[verb] += 1
            raise

    async def _by_deadline(self, method: Callable[..., Any], verb: str, request: Any, moment: float) -> Any:
        return await method(request, timeout=max(moment, 0.0005))

    async def _by_cancel(self, method: Callable[..., Any], verb: str, request: Any, moment: float) -> Any:
        call = method(request, timeout=CALL)
        asyncio.get_running_loop().call_later(moment, call.cancel)
        return await call

    async def _by_leaving(self, method: Callable[..., Any], verb: str, request: Any, moment: float) -> Any:
        """The connection goes with its caller."""
        async with AsyncCRIClient(self.endpoint) as client:
            call = getattr(client, verb)(request, timeout=CALL)
            done, _ = await asyncio.wait((asyncio.ensure_future(_answer(call)),), timeout=moment)
            if done:
                return done.pop().result()
        return await call


async def _answer(call: Any) -> Any:
    return await call


async def test_every_verb(
    new_server: Callable[..., CrishimServer],
    engine: TestEngine,
    scaled: Callable[[int], int],
    bridged: CniDirs,
    tally: ScriptedPlugin,
) -> None:
    """Most of what was broken off is repeated, and is true then; the rest is given up, is listed, and can be removed.

    With pods of both carriers. At the end nothing is left, in the server neither.
    """
    server = new_server(cni=bridged, fronted=True)
    server.start()
    quiet = Quiet.of(server)
    churn = Churn(server, "cancel", mixed=True)
    print(f"seed {churn.seed}")
    impatient = Impatient(churn.random, server.endpoint)
    churn.call = impatient.call
    for repeats, wanted in ((True, scaled(500)), (False, scaled(100))):
        impatient.broken_off.clear()
        churn.repeats = repeats
        churn.connect()
        async with asyncio.TaskGroup() as workers:
            for number in range(WORKERS):
                enough = partial(_enough, impatient, wanted)
                workers.create_task(churn.work(number, enough))
        await churn.disconnect()
        print(f"{churn.pods} pods, broken off: {impatient.broken_off}")
        assert impatient.broken_off.keys() >= VERBS or wanted < 500
        if repeats:
            assert broken_promises(churn.told, listed_states(server)) == []
            assert_nothing_left(server, engine.api)
    await asyncio.to_thread(server.remove_all)
    await asyncio.to_thread(assert_nothing_left, server, engine.api, quiet)
    assert unreleased(tally) == []
    assert server.stop() == 0
    assert_store_empty(server)
    remove_anchors(engine.api)


def _enough(impatient: Impatient, wanted: int) -> bool:
    return impatient.broken_off.total() >= wanted


async def test_pulls(
    server: CrishimServer, engine: TestEngine, registry: Registry, scaled: Callable[[int], int]
) -> None:
    """PullImage and RemoveImage broken off: the image is there or not, and the next pull succeeds."""
    chance = random.Random(seed := random.randrange(1 << 30))
    print(f"seed {seed}")
    registry.push(busybox().with_files(File("big", chance.randbytes(4 << 20))), "cancel/pulled:1")
    image = pb.ImageSpec(image=registry.ref("cancel/pulled:1"))
    impatient = Impatient(chance, server.endpoint)
    async with AsyncCRIClient(server.endpoint) as client:
        for _ in range(scaled(60)):
            for method, request in (
                (client.PullImage, pb.PullImageRequest(image=image)),
                (client.RemoveImage, pb.RemoveImageRequest(image=image)),
            ):
                try:
                    await impatient.call(method, request)
                except (grpc.RpcError, asyncio.CancelledError):
                    await client.ImageStatus(pb.ImageStatusRequest(image=image), timeout=CALL)
        pulled = await client.PullImage(pb.PullImageRequest(image=image), timeout=CALL)
        status = await client.ImageStatus(pb.ImageStatusRequest(image=image), timeout=CALL)
        assert status.image.id == pulled.image_ref
        await client.RemoveImage(pb.RemoveImageRequest(image=image), timeout=CALL)
        assert not (await client.ImageStatus(pb.ImageStatusRequest(image=image), timeout=CALL)).HasField("image")
