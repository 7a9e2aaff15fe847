"""gRPC's health service, asked by gRPC's own stubs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2 as wire
from grpc_health.v1.health_pb2_grpc import HealthStub

from crishim.engine.simulated import SimulatedEngine
from crishim.engine.values import EngineEvent, EngineFacts
from crishim.rpc import health as rpc
from crishim.rpc.health import Health, ServingStatus
from crishim.rpc.server import Server
from crishim.rpc.unix_socket import ServerSocket
from crishim.runtime.engine_link import EngineLink

RUNTIME, IMAGES = "runtime.v1.RuntimeService", "runtime.v1.ImageService"


class Served:
    """A server whose engine can go away, and a health client."""

    def __init__(self, health: Health, engine: SimulatedEngine, link: EngineLink, stub: HealthStub) -> None:
        self.health, self.engine, self.link, self._stub = health, engine, link, stub

    async def check(self, service: str) -> str:
        answer = await self._stub.Check(wire.HealthCheckRequest(service=service), timeout=20)
        return str(wire.HealthCheckResponse.ServingStatus.Name(answer.status))

    def watch(self, service: str) -> AsyncGenerator[str]:
        call = self._stub.Watch(wire.HealthCheckRequest(service=service), timeout=20)

        async def names() -> AsyncGenerator[str]:
            try:
                async for answer in call:
                    yield wire.HealthCheckResponse.ServingStatus.Name(answer.status)
            finally:
                call.cancel()

        return names()


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Served]:
    async def nothing(facts: EngineFacts | None = None) -> None:
        return

    def ignore(event: EngineEvent) -> None:
        return

    engine = SimulatedEngine()
    link = EngineLink(engine, on_connect=nothing, on_event=ignore, on_compare=nothing)
    health = Health(link)
    with ServerSocket(path) as socket:
        server = Server(None, health=health)  # type: ignore[arg-type] # no RPC of CRI is called
        await server.start(socket)
        try:
            async with grpc.aio.insecure_channel(f"unix://{path}") as channel:
                yield Served(health, engine, link, HealthStub(channel))
        finally:
            await link.close()
            await server.stop(0)


async def test_the_services_of_cri_need_the_engine_and_the_server_does_not(tmp_path: Path) -> None:
    async with serving(tmp_path / "c.sock") as served:
        assert [await served.check(name) for name in ("", RUNTIME, IMAGES)] == ["SERVING", "NOT_SERVING", "NOT_SERVING"]
        await served.link.start()
        assert await served.link.wait_connected(20)
        assert [await served.check(name) for name in ("", RUNTIME, IMAGES)] == ["SERVING"] * 3
        assert repr(served.health) == "<Health SERVING, CRI SERVING>"


async def test_who_watches_is_told_each_change_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "c.sock") as served:
        cri, server, unknown = served.watch(RUNTIME), served.watch(""), served.watch("none")
        assert await anext(cri) == "NOT_SERVING"
        assert await anext(server) == "SERVING"
        assert await anext(unknown) == "SERVICE_UNKNOWN"
        await served.link.start()
        assert await anext(cri) == "SERVING"
        served.engine.go_down()
        assert await anext(cri) == "NOT_SERVING"
        served.engine.come_back()
        assert await anext(cri) == "SERVING"
        served.health.stop()
        assert [status async for status in cri] == ["NOT_SERVING"]
        assert [status async for status in server] == ["NOT_SERVING"], "nothing else happened to it"
        assert [status async for status in unknown] == []
        assert await served.check("") == "NOT_SERVING"


async def test_watchers_that_leave_are_forgotten(tmp_path: Path) -> None:
    async with serving(tmp_path / "c.sock") as served:
        watching = served.watch("")
        assert await anext(watching) == "SERVING"
        assert len(served.health._watchers) == 1
        await watching.aclose()
        async with asyncio.timeout(20):
            while True:
                if not served.health._watchers:
                    break
                await asyncio.sleep(0.01)


async def test_an_unknown_service_is_not_found(tmp_path: Path) -> None:
    async with serving(tmp_path / "c.sock") as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.check("runtime.v1alpha2.RuntimeService")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_names_and_numbers_are_those_of_the_protocol() -> None:
    service = wire.DESCRIPTOR.services_by_name["Health"]
    assert service.full_name == rpc.SERVICE
    numbers = wire.HealthCheckResponse.ServingStatus
    assert {status.name: status.value for status in ServingStatus} == {
        name: number for name, number in numbers.items() if name != "UNKNOWN"
    }
