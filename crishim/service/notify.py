"""Telling systemd how the server is (sd_notify(3)), in as many lines as it takes."""

from __future__ import annotations

import logging
import socket
from collections.abc import MutableMapping

log = logging.getLogger(__name__)

VARIABLE = "NOTIFY_SOCKET"


class Notifier:
    """Sends states to whoever started the server, or nowhere if nobody asked for them."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """Takes the variable out of `environ`: processes that the server starts must not speak for it."""
        self._address = environ.pop(VARIABLE, "")

    def ready(self, status: str) -> None:
        """The server serves."""
        self._send("READY=1", f"STATUS={status}")

    def stopping(self) -> None:
        """The server is about to end."""
        self._send("STOPPING=1", "STATUS=finishing the calls under way")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.connect(address)
                sender.send("\n".join(line.replace("\n", " ") for line in lines).encode("utf-8", "replace"))
        except OSError as error:
            # Whoever started us cannot be told; that is no reason not to serve.
            log.warning("cannot notify %s: %s", self._address, error)
