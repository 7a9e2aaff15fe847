"""What the wire of CRI needs of the streaming server: a URL for something that was prepared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crishim.model.streams import PreparedForward, PreparedProcess


class SessionURLs(ABC):
    """Gives URLs that ExecResponse, AttachResponse and PortForwardResponse carry.

    Each is absolute, names a host that can be dialled, holds a secret, works once and for a minute. All methods raise
    `TooManyPending` when too many URLs wait for their clients.
    """

    @abstractmethod
    def exec(self, process: PreparedProcess) -> str:
        """A URL whose client gets the streams of this process; its end is the process's exit code."""

    @abstractmethod
    def attach(self, process: PreparedProcess) -> str:
        """A URL whose client gets the streams of this container; its end is success, whatever the container's was."""

    @abstractmethod
    def port_forward(self, forward: PreparedForward) -> str:
        """A URL whose client gets connections into this pod."""
