"""The container's log where the kubelet looks for it: a link to the engine's own file.

Both kubelet and crictl read the engine's format as well as CRI's. A link cannot be rotated: ReopenContainerLog says so.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from crishim.errors import InvalidArgument


async def prepare_log_place(log_path: str) -> None:
    """Make the log's folder, and take away the link to a log that is gone: of a container removed while we were away.

    Raises InvalidArgument when something of the host is there already.
    """
    if log_path:
        await asyncio.to_thread(_prepare, log_path)


async def make_log_link(log_path: str, target: str) -> None:
    """Put the link in place; the engine tells the `target` once the container was started. Raises InvalidArgument."""
    if log_path and target:
        await asyncio.to_thread(_make, log_path, target)


async def remove_log_link(log_path: str) -> None:
    """Take away the link to a log that is gone, and nothing else that may lie there."""
    if log_path:
        await asyncio.to_thread(_remove_dead, log_path)


def _prepare(log_path: str) -> None:
    try:
        Path(log_path).parent.mkdir(parents=True, exist_ok=True)
        _remove_dead(log_path)
    except OSError as error:
        raise InvalidArgument(f"{log_path}: {error.strerror}", field="config.log_path") from error
    if os.path.lexists(log_path):
        raise InvalidArgument(f"{log_path}: exists already", field="config.log_path")


def _make(log_path: str, target: str) -> None:
    try:
        os.symlink(target, log_path)
    except OSError as error:
        raise InvalidArgument(f"{log_path}: {error.strerror}", field="config.log_path") from error


def _remove_dead(log_path: str) -> None:
    if os.path.islink(log_path) and not os.path.exists(log_path):
        with suppress(FileNotFoundError):
            os.unlink(log_path)
