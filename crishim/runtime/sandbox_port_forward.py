"""PortForward: connections to what listens on loopback inside a pod's network namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from socket import socket

from crishim.errors import InvalidArgument, SandboxNotReady
from crishim.model.streams import PreparedForward
from crishim.runtime.core import Runtime
from crishim.runtime.index import Change
from crishim.runtime.objects import Sandbox

_HIGHEST = 65535


def prepare_port_forward(rt: Runtime, sandbox_id: str, ports: Iterable[int]) -> PreparedSandboxForward:
    """Find a port-forward valid (CRI PortForward); `ports` may be empty: the client names them.

    Raises InvalidArgument, SandboxNotFound, SandboxNotReady.
    """
    rt.link.need_loaded()
    sandbox = _need_ready(rt.index.need_sandbox(sandbox_id))
    wanted = tuple(ports)
    for port in wanted:
        if not 0 < port <= _HIGHEST:
            raise InvalidArgument(f"{port} is not from 1 to {_HIGHEST}", field="port")
    return PreparedSandboxForward(rt, sandbox.id, wanted)


def _need_ready(sandbox: Sandbox) -> Sandbox:
    if not sandbox.ready:
        raise SandboxNotReady(f"sandbox {sandbox.id[:13]} is not ready", sandbox=sandbox.id)
    return sandbox


class PreparedSandboxForward(PreparedForward):
    """A port-forward that waits for its client."""

    def __init__(self, rt: Runtime, sandbox_id: str, ports: tuple[int, ...]) -> None:
        self.sandbox_id = sandbox_id
        self.ports = ports
        self._rt = rt

    def __repr__(self) -> str:
        return f"<PreparedSandboxForward to {self.sandbox_id[:13]}>"

    async def connect(self, port: int) -> socket:
        if self.ports and port not in self.ports:
            raise InvalidArgument(f"port {port} is not among those that were asked for", sandbox=self.sandbox_id)
        sandbox = _need_ready(self._rt.index.need_sandbox(self.sandbox_id))
        # A pod on the host's network has no pin; its process, or else the engine's, is in the namespace that it means.
        pinned = bool(sandbox.record.netns_path)
        pid = sandbox.pid or self._rt.link.facts.daemon_pid or "self"
        path = self._rt.namespaces.path(sandbox.id) if pinned else f"/proc/{pid}/ns/net"
        return await self._rt.namespaces.connect(path, port)

    async def ended(self) -> None:
        over = asyncio.Event()

        def look(change: Change | None = None) -> None:
            if change is None or self.sandbox_id in (getattr(change.before, "id", ""), getattr(change.after, "id", "")):
                sandbox = self._rt.index.sandbox(self.sandbox_id)
                if sandbox is None or not sandbox.ready:
                    over.set()

        unsubscribe = self._rt.index.subscribe(look)
        try:
            look()
            await over.wait()
        finally:
            unsubscribe()
