"""The whole server in this process, on a simulated engine that a test can look into."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crishim.checkpoint.memory import MemoryStore
from crishim.engine.simulated import SimulatedEngine
from crishim.engine.simulated.facts import default_facts
from crishim.logs.inline import InlineLogWriter
from crishim.network.namespaces import SimulatedNamespaces
from crishim.network.none import NoNetwork
from crishim.rpc.served import serve_from
from crishim.rpc.server import Server
from crishim.rpc.unix_socket import ServerSocket
from crishim.runtime.node import Node
from crishim.testing.client import AsyncCRIClient


@dataclass(frozen=True)
class Place:
    """A server and what it works with."""

    client: AsyncCRIClient
    engine: SimulatedEngine
    node: Node
    folder: Path


@asynccontextmanager
async def simulated_server(**facts: Any) -> AsyncIterator[Place]:
    """Serve inside the block; `facts` are those of the engine that a test wants otherwise."""
    folder = Path(tempfile.mkdtemp(prefix="crishim-"))  # a unix socket's path may have 107 bytes only
    engine = SimulatedEngine(root=folder / "engine", facts=replace(default_facts(str(folder)), **facts))
    node = Node(
        engine=engine,
        store=MemoryStore(),
        network=NoNetwork(),
        namespaces=SimulatedNamespaces(),
        log_writer=InlineLogWriter(),
    )
    try:
        await node.start()
        assert await node.runtime.link.wait_connected(30)
        served = serve_from(node.runtime)
        server = Server(served)
        with ServerSocket(folder / "s") as socket:
            await server.start(socket)
            try:
                async with AsyncCRIClient(f"unix://{folder}/s") as client:
                    yield Place(client, engine, node, folder)
            finally:
                await server.stop(0)
                await served.close()
                await node.close()
    finally:
        shutil.rmtree(folder)
