"""`Telemetry`: all of this room for the composition root: what counts from the start, and the port that tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crishim.engine.api import Engine
from crishim.network.api import PodNetwork
from crishim.telemetry.measured import measured
from crishim.telemetry.pages import Pages
from crishim.telemetry.server import TelemetryServer
from crishim.telemetry.sources import Counted

if TYPE_CHECKING:
    from crishim.telemetry.sources import Sources


class Telemetry:
    """Made before the backends, started when there is something to tell, stopped last."""

    def __init__(self, address: str, *, insecure: bool) -> None:
        """See TelemetryServer. Raises CannotServe."""
        self.counted = Counted()
        self._server = TelemetryServer(address, insecure=insecure)

    def __repr__(self) -> str:
        return f"<Telemetry {self._server!r}>"

    def engine(self, engine: Engine) -> Engine:
        """The engine with its calls counted."""
        return measured(Engine, engine, self.counted.engine)

    def network(self, network: PodNetwork) -> PodNetwork:
        """The network with its operations counted."""
        return measured(PodNetwork, network, self.counted.network)

    async def start(self, sources: Sources) -> None:
        """Tell of these from now on. Raises CannotServe."""
        self.counted.loop.start()
        await self._server.start(Pages(sources))

    async def stop(self) -> None:
        """Tell nothing any more. May be called without start."""
        self.counted.loop.stop()
        await self._server.stop()
