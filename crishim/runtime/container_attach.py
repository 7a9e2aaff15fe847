"""Attach: the streams of a container's own process, for a client."""

from __future__ import annotations

from crishim.errors import InvalidArgument
from crishim.model.streams import PreparedProcess, ProcessStreams, TerminalSize, WantedStreams
from crishim.runtime.container_process import check_streams, need_running, translated
from crishim.runtime.core import Runtime


def prepare_attach(rt: Runtime, container_id: str, wanted: WantedStreams) -> PreparedAttach:
    """Find an attach valid (CRI Attach): it connects when its client comes.

    Raises InvalidArgument (no stream, a terminal with stderr, `tty` that is not as the container's config has it, stdin
    of a container that has none), ContainerNotFound, ContainerNotRunning.
    """
    container = need_running(rt, container_id)
    check_streams(wanted)
    if wanted.tty != container.live.tty:
        has = "has" if container.live.tty else "has no"
        raise InvalidArgument(f"container {container.id[:13]} {has} terminal", field="tty", container=container.id)
    if wanted.stdin and not container.live.stdin:
        raise InvalidArgument(
            f"container {container.id[:13]} was made without stdin", field="stdin", container=container.id
        )
    return PreparedAttach(rt, container.id, wanted)


class PreparedAttach(PreparedProcess):
    """An attach that waits for its client."""

    def __init__(self, rt: Runtime, container_id: str, wanted: WantedStreams) -> None:
        self.container_id = container_id
        self.wanted = wanted
        self._rt = rt

    def __repr__(self) -> str:
        return f"<PreparedAttach to {self.container_id[:13]}>"

    async def start(self, size: TerminalSize | None) -> ProcessStreams:
        container = need_running(self._rt, self.container_id)
        async with translated(self._rt, self.container_id):
            return await self._rt.link.engine.attach(
                self.container_id, self.wanted, size, ends_stdin=container.live.stdin_once
            )
