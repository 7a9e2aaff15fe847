"""Containers in which each exec is to be the front's business, too: a file for each, beside the desk.

A front asks about an exec only where it finds one, so that the exec of any other container costs nothing. The files
lie in the folder of what lives as long as the machine is up: they, too, outlive a restart of the server.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from crishim.errors import FrontFailed
from crishim.front.twins import marker_path

log = logging.getLogger(__name__)


class ExecMarkers:
    """The files. All methods are synchronous: a file without content in a file system of memory."""

    def __init__(self, desk: Path | None) -> None:
        """`desk`: the socket at which the fronts ask; None: there are none."""
        self._folder = marker_path(desk, "") if desk is not None else None
        self._set: set[str] = set()

    def __repr__(self) -> str:
        return f"<ExecMarkers {self._folder}: {len(self._set)}>"

    def put(self, container_id: str) -> None:
        """Have fronts ask about each exec in this container from now on. Raises FrontFailed."""
        if container_id in self._set:
            return
        if self._folder is None:
            raise FrontFailed("there is no front", container=container_id)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / container_id).touch(mode=0o600)
        except OSError as error:
            raise FrontFailed(f"cannot make {error.filename}: {error.strerror}", container=container_id) from error
        self._set.add(container_id)

    def drop(self, container_id: str) -> None:
        """The container has gone. One that was never marked is no error."""
        if container_id in self._set and self._folder is not None:
            self._set.discard(container_id)
            self._remove(self._folder / container_id)

    def clear(self, known: Callable[[str], bool]) -> None:
        """Take up what an earlier server left, and remove what belongs to no container that is known."""
        if self._folder is None:
            return
        try:
            found = os.listdir(self._folder)
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("what is marked for fronts cannot be read: %s", error)
            return
        self._set |= {name for name in found if known(name)}
        for name in found:
            if not known(name):
                self._remove(self._folder / name)

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s is left: %s", path, error)
