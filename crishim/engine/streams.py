"""A process in a container that the engine starts for us, with its standard streams."""

from __future__ import annotations

from abc import abstractmethod

from crishim.model.streams import ProcessStreams, TerminalSize


class EngineExec(ProcessStreams):
    """An exec: prepared by `Engine.exec`, running from `start` on.

    Whoever calls `start` owes a `close`, and a `kill` before it if nobody shall be left who waits for the process: a
    start whose outcome is unknown (cancelled, engine away) may have taken place.
    """

    container_id: str

    @abstractmethod
    async def start(self, size: TerminalSize | None = None) -> None:
        """Ask the engine to start the process, its terminal of this size if one is given; once.

        Returns as soon as the engine has accepted: output may be read and input written then, but the process may turn
        out not to start. `up` and `exit_code` tell. Raises ExecFailed, EngineConflict (the container does not run or
        is paused), EngineNotFound, EngineUnavailable.
        """

    @abstractmethod
    async def up(self) -> None:
        """Return when the process has started, with the size given to `start` in force.

        Raises ExecFailed with the engine's words when it did not: they are not output, and are not read again.
        """

    @abstractmethod
    async def exit_code(self) -> int:
        """Wait for the process's end: 0 to 255, 128 + N when killed by signal N. Call it when the output has ended.

        Raises ExecFailed when it never started; what was read is the engine's words then. EngineNotFound when the
        container is gone; EngineUnavailable also when the engine was restarted meanwhile and has forgotten the process.
        """

    @abstractmethod
    async def kill(self) -> bool:
        """Kill the process and those it has started, and nothing else of the container.

        False where there was nothing to kill: it has ended by itself (what it left running is not touched), or it never
        ran. Waits for a start under way. May be called after `close`, and again after it was cancelled or has raised
        EngineUnavailable.
        """
