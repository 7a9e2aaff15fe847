"""The little that a network backend must know after a restart and that belongs to no pod."""

from __future__ import annotations

import contextlib
import json
import logging
import os

log = logging.getLogger(__name__)


class NetworkMemory:
    """A small file of texts in the state folder.  Without a folder it lasts as long as the process.

    A file that cannot be read or written is logged, and what it held counts as not known: no pod depends on it.
    """

    def __init__(self, state_dir: str | None) -> None:
        self._path = os.path.join(state_dir, "network.json") if state_dir else None
        self._texts = self._read()

    def get(self, key: str) -> str:
        """Return what was last put under `key`, "" if nothing was."""
        return self._texts.get(key, "")

    def put(self, key: str, text: str) -> None:
        """Keep `text`; a write of one small file when it differs from what is kept."""
        if self._texts.get(key, "") == text:
            return
        self._texts[key] = text
        if self._path is None:
            return
        temporary = f"{self._path}.new"
        try:
            os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(self._texts, file)
            os.replace(temporary, self._path)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _read(self) -> dict[str, str]:
        if self._path is None:
            return {}
        try:
            with open(self._path, encoding="utf-8") as file:
                texts = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read: %s", self._path, error)
            return {}
        if not isinstance(texts, dict):
            log.warning("%s cannot be read: it holds no object", self._path)
            return {}
        return {str(key): value for key, value in texts.items() if isinstance(value, str)}
