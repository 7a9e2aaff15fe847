"""`Events`: follows the index and tells each event to all listeners. Encoded once, and not at all without listeners."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from crishim.events.event import Event, EventKind, what_happened
from crishim.events.listener import Listener
from crishim.runtime.index import Change, Index
from crishim.runtime.objects import Sandbox

log = logging.getLogger(__name__)

BACKLOG = 16 << 20
"""Bytes of events that a listener may leave unread."""


class Events:
    """The events of one index. Listeners are many; what is told to them is told in one order."""

    def __init__(
        self,
        index: Index,
        encode: Callable[[Event], bytes],
        *,
        loaded: Callable[[], bool] = lambda: True,
        backlog: int = BACKLOG,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """`loaded`: whether the engine was read once; until then the index fills with what there is, nothing happens.

        `backlog`: bytes that a listener may leave unread. `now`: nanoseconds since the epoch.
        """
        self._index = index
        self._encode = encode
        self._loaded = loaded
        self._backlog = backlog
        self._now = now
        self._last = 0
        self._listeners: dict[Listener, None] = {}
        self._closed = False
        self.dropped = 0
        """Events that slow listeners were not told of, since the start."""
        self._unsubscribe = index.subscribe(self._changed)

    def __repr__(self) -> str:
        return f"<Events {len(self._listeners)} listeners, {self.dropped} dropped>"

    @property
    def listeners(self) -> Sequence[Listener]:
        """Who listens."""
        return tuple(self._listeners)

    def listen(self) -> Listener:
        """All events from now on; never fails, and does not end with the engine."""
        listener = Listener(self._backlog, self._leave, self._drop)
        self._listeners[listener] = None
        if self._closed:
            listener.close()
        return listener

    def close(self) -> None:
        """End all streams: the server stops."""
        self._closed = True
        self._unsubscribe()
        self._unsubscribe = lambda: None
        for listener in self._listeners:
            listener.close()

    def _leave(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)

    def _drop(self, count: int) -> None:
        self.dropped += count

    def _changed(self, change: Change) -> None:
        if not self._listeners or not self._loaded():
            return
        try:
            for kind in what_happened(change):
                event = self._make(change, kind)
                encoded = self._encode(event)
                for listener in self._listeners:
                    listener.put(event.object_id, encoded)
        except Exception:
            # Whoever changed the index has done no wrong.
            log.exception("an event is not told")

    def _make(self, change: Change, kind: EventKind) -> Event:
        subject = change.after or change.before
        assert subject is not None, "a change is of something"
        sandbox = subject if isinstance(subject, Sandbox) else self._index.sandbox(subject.sandbox_id)
        assert sandbox is not None, "a container's sandbox is dropped after it"
        self._last = max(self._now(), self._last + 1)
        return Event(
            object_id=subject.id,
            kind=kind,
            created_at=self._last,
            sandbox=sandbox,
            containers=tuple(self._index.containers_of(sandbox.id)),
            sandbox_listed=self._index.sandbox(sandbox.id) is not None,
        )
