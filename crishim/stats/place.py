"""`Place`: a cgroup, whichever version and driver, and its files."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from functools import cached_property

from crishim.stats.files import Kept


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the figures of a container or pod lie. Files stay open as long as it lives."""

    path: str
    """Its cgroup as the kernel names it, for people and labels of metrics."""
    folders: dict[str, str] = field(default_factory=dict)
    """Version 1: controller to folder; `unified` is the one hierarchy of version 2, also beside version 1."""
    files: Kept = field(default_factory=Kept, compare=False, repr=False)

    @cached_property
    def above(self) -> Place:
        """The cgroup above: the pod's, where the pod has one."""
        folders = {controller: posixpath.dirname(folder) for controller, folder in self.folders.items()}
        return Place(path=posixpath.dirname(self.path), folders=folders)
