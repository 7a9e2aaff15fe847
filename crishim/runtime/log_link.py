"""The container's log where the kubelet looks for it: a link to the engine's own file.

Both kubelet and crictl read the engine's format as well as CRI's. A link cannot be rotated: ReopenContainerLog says so.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from crishim.errors import InvalidArgument


async def make_log_link(log_path: str, target: str) -> None:
    """Put the link in place, making its folder. Raises InvalidArgument when something of the host is there already."""
    if log_path and target:
        await asyncio.to_thread(_make, log_path, target)


async def remove_log_link(log_path: str, target: str) -> None:
    """Take away the link, and nothing else that may lie there."""
    if log_path and target:
        await asyncio.to_thread(_remove, log_path, target)


def _make(log_path: str, target: str) -> None:
    try:
        Path(log_path).parent.mkdir(parents=True, exist_ok=True)
        # A link to a log that is gone is left of a container removed while we were away.
        if os.path.islink(log_path) and (not os.path.exists(log_path) or os.readlink(log_path) == target):
            os.unlink(log_path)
        os.symlink(target, log_path)
    except OSError as error:
        raise InvalidArgument(f"{log_path}: {error.strerror}", field="config.log_path") from error


def _remove(log_path: str, target: str) -> None:
    try:
        if os.readlink(log_path) == target:
            os.unlink(log_path)
    except OSError:
        return  # not there, or not a link: not ours
