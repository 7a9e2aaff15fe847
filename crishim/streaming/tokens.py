"""The secrets in the URLs: each stands for one prepared job, works once and for a minute. No I/O."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import Generic, TypeVar

from crishim.errors import TooManyPending

TOKEN_BYTES = 24
LIFETIME = 60.0
"""Seconds from the answer to CRI's call to the client's request; what the kubelet's own server gives."""
MOST_PENDING = 1000
"""Jobs that may wait for their clients; what the kubelet's own server allows."""

J = TypeVar("J")


class Tokens(Generic[J]):
    """Jobs by their secrets."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds that never go back."""
        self._clock = clock
        self._pending: dict[str, tuple[float, J]] = {}
        """In the order of their end."""

    def __len__(self) -> int:
        self._drop_lapsed()
        return len(self._pending)

    def issue(self, job: J) -> str:
        """A new token of 192 random bits, as text for a URL. Raises TooManyPending."""
        if len(self) >= MOST_PENDING:
            raise TooManyPending(f"{MOST_PENDING} exec, attach and port-forward URLs wait for their clients already")
        token = base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES)).decode("ascii")
        self._pending[token] = self._clock() + LIFETIME, job
        return token

    def look_up(self, token: str) -> J | None:
        """The job, which goes on waiting; None: never issued, used, or lapsed."""
        self._drop_lapsed()
        found = self._pending.get(token)
        return None if found is None else found[1]

    def use(self, token: str) -> None:
        """From now on the token is no good."""
        self._pending.pop(token, None)

    def clear(self) -> None:
        """Forget all."""
        self._pending.clear()

    def _drop_lapsed(self) -> None:
        now = self._clock()
        while self._pending:
            token = next(iter(self._pending))
            if self._pending[token][0] > now:
                break
            del self._pending[token]
