"""TLS for the streaming server: files that may be replaced while it runs, as certificates on nodes are."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TLSFiles:
    """PEM files: certificate with chain, its key, and the CAs of clients (None: clients need no certificate)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def load(self) -> ssl.SSLContext:
        """Read them. Raises OSError (of which ssl.SSLError is one) when one is missing or wrong."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self.certificate, self.key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Changes when a file is replaced or written."""
        found = (os.stat(path) for path in (self.certificate, self.key, self.client_ca) if path is not None)
        return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in found)


class RotatingTLS:
    """The context for the next connection: made anew when the files have changed, and can be used."""

    def __init__(self, files: TLSFiles) -> None:
        """Reads the files. Raises OSError."""
        self._files = files
        self._stamp = files._stamp()
        self._context = files.load()
        self._lock = asyncio.Lock()

    async def context(self) -> ssl.SSLContext:
        """Files that are half replaced leave the old ones in force; that is logged once for each change."""
        async with self._lock:
            self._context, self._stamp = await asyncio.to_thread(self._newest)
        return self._context

    def _newest(self) -> tuple[ssl.SSLContext, tuple[tuple[int, int, int], ...]]:
        try:
            stamp = self._files._stamp()
        except OSError:
            return self._context, self._stamp  # being replaced
        if stamp == self._stamp:
            return self._context, stamp
        try:
            context = self._files.load()
        except OSError as error:
            logger.warning(
                "new TLS files of the streaming server cannot be used, the old ones stay in force: %s", error
            )
            return self._context, stamp
        logger.info("the streaming server uses its new TLS files")
        return context, stamp
