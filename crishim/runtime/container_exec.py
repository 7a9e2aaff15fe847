"""Exec: a process in a container, whose streams go to a client."""

from __future__ import annotations

from crishim.errors import ExecFailed
from crishim.model.streams import PreparedProcess, ProcessStreams, TerminalSize, WantedStreams
from crishim.runtime.container_process import check_command, check_streams, end_process, need_running, translated
from crishim.runtime.core import Runtime


def prepare_exec(rt: Runtime, container_id: str, command: tuple[str, ...], wanted: WantedStreams) -> PreparedExec:
    """Find an exec valid (CRI Exec): it starts when its client comes.

    Raises InvalidArgument (no command; no stream, or a terminal with stderr), ContainerNotFound, ContainerNotRunning.
    """
    container = need_running(rt, container_id)
    check_command(command)
    check_streams(wanted)
    return PreparedExec(rt, container.id, command, wanted)


class PreparedExec(PreparedProcess):
    """An exec that waits for its client."""

    def __init__(self, rt: Runtime, container_id: str, command: tuple[str, ...], wanted: WantedStreams) -> None:
        self.container_id = container_id
        self.wanted = wanted
        self._rt = rt
        self._command = command

    def __repr__(self) -> str:
        return f"<PreparedExec in {self.container_id[:13]}>"

    async def start(self, size: TerminalSize | None) -> ProcessStreams:
        rt = self._rt
        need_running(rt, self.container_id)
        async with translated(rt, self.container_id):
            process = await rt.link.engine.exec(self.container_id, self._command, self.wanted)
            try:
                await process.start(size)
                await process.up()
            except ExecFailed:
                await process.close()
                raise
            except BaseException:
                # Whether it runs is not known, and nobody would read what it says.
                end_process(rt, process)
                raise
        return process
