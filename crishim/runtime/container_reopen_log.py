"""ReopenContainerLog: the kubelet has renamed the log, and what comes from now on goes to a new file."""

from __future__ import annotations

from crishim.runtime.core import Runtime


async def reopen_container_log(rt: Runtime, container_id: str) -> None:
    """Write a running container's log to a new file at its path (CRI ReopenContainerLog).

    On return the file exists; what was written before is in the renamed one, up to a line's end. Raises
    ContainerNotFound, ContainerNotRunning, and LogFailed with the path; no file was made then, and the log goes on
    where it was.
    """
    rt.link.need_loaded()
    container = rt.index.need_container(container_id)
    await rt.logs.reopen(container)
