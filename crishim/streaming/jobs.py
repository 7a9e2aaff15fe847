"""What a URL stands for: a prepared process or forward that waits for its client."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crishim.model.streams import PreparedForward, PreparedProcess

Session = Coroutine[Any, Any, str]
"""Serves one client to its connection's end; what came of it, for the log."""


@dataclass(frozen=True, slots=True)
class ProcessJob:
    """An exec or attach."""

    verb: str
    """First part of the URL's path."""
    process: PreparedProcess
    tells_exit_code: bool

    @property
    def noun(self) -> str:
        """Whom it is about, for the log."""
        return f"container {self.process.container_id}"


@dataclass(frozen=True, slots=True)
class ForwardJob:
    """A port-forward."""

    forward: PreparedForward
    verb: str = "portforward"

    @property
    def noun(self) -> str:
        """Likewise."""
        return f"sandbox {self.forward.sandbox_id}"


Job = ProcessJob | ForwardJob
