"""The writer's orders and rounds: which logs are followed, which have something to move, what is to be told.

Who runs it (`worker` in a process of its own, `inline` on the spot) hands in orders and what inotify saw, calls
`round` while there is work, and delivers what `take_told` gives. Orders and answers are plain JSON values:

    {"n": 1, "do": "begin", "id": ID, "spool": PATH, "folder": PATH, "name": PATH, "at": PROGRESS or null, "new": true}
    {"n": 2, "do": "complete" | "reopen" | "drop" | "late", "id": ID}
    -> {"n": 1, "at": PROGRESS or null} or {"n": 1, "error": TEXT}
    -> {"id": ID, "at": PROGRESS}        unasked, as a log goes on
    -> {"id": ID, "note": TEXT}          for the server's log
    -> {"counters": {NAME: NUMBER}}      when they have changed
"""

from __future__ import annotations

import os
import time
from collections import deque

from crishim.logs.follower import LAG, Counters, Follower
from crishim.logs.inotify import IN_CREATE, IN_IGNORED, IN_MOVED_TO, IN_Q_OVERFLOW, Inotify
from crishim.logs.logfile import BadPlace, LogFile
from crishim.logs.spool import Spool

TYPE_CHECKING = False  # importing typing costs the writer's process a megabyte
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Message = dict[str, Any]

_SLICE = 0.01
"""Seconds of work after which orders are looked at again."""
_TURN = 8
"""Blocks that one log may move before the next one's turn."""
_TELL_BYTES = 8 << 20
_TELL_EVERY = 10.0
"""Bytes and seconds after which progress is told: what a writer that is killed did since is read a second time."""
_IDLE = 2.0
"""Seconds after which the descriptor of a spool that says nothing is closed."""
RETRY = 0.5
"""Seconds after which what could not be written is tried again, and what cannot be watched is looked at."""


class Desk:
    """All logs of a node. `inotify` None: nothing is seen by itself, only what is asked for is moved."""

    def __init__(self, inotify: Inotify | None = None) -> None:
        self.counters = Counters()
        self._lag = 0
        self._told_figures: dict[str, int] = self.figures()
        self._inotify = inotify
        self._logs: dict[str, Follower] = {}
        self._watches: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._dirty: deque[str] = deque()
        self._waiting: dict[str, list[int]] = {}
        """Container to the orders that are answered when its log is complete."""
        self._stuck: dict[str, str] = {}
        """Container to why its log cannot be moved at the moment."""
        self._unwatched: set[str] = set()
        self._warm: dict[str, tuple[float, float]] = {}
        """Those with something to close or to tell: when something was moved last, when progress was told last."""
        self._told: list[Message] = []

    def __repr__(self) -> str:
        return f"<Desk {len(self._logs)} logs, {len(self._dirty)} to move>"

    def figures(self) -> dict[str, int]:
        """Counters since the writer began, and `lag_bytes`: what the spools held at the last look that was not written.

        That look is a part of `housekeep`, so that the figure is as of half a second ago.
        """
        return {**self.counters.as_dict(), LAG: self._lag}

    # --- orders

    def order(self, message: Message) -> None:
        """Carry out an order; its answer is among what is told, for `complete` perhaps later."""
        number, what, container_id = message["n"], message["do"], message["id"]
        try:
            if what == "begin":
                self._begin(container_id, message)
            elif what == "reopen":
                if container_id not in self._logs:
                    raise BadPlace("this log is not written")
                self._logs[container_id].reopen()
            elif what == "complete" and container_id in self._logs:
                self._waiting.setdefault(container_id, []).append(number)
                self._touch(container_id)
                return
            elif what == "drop":
                self._forget(container_id)
            elif what == "late" and container_id in self._logs:
                self._logs[container_id].late = True
        except BadPlace as error:
            self._told.append({"n": number, "error": str(error)})
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            self._told.append({"n": number, "error": f"{where}{error.strerror}"})
        except Exception as error:  # a fault of ours with one log must not end the writing of all
            self._told.append({"n": number, "error": f"{type(error).__name__}: {error}"})
        else:
            log = self._logs.get(container_id)
            self._told.append({"n": number, "at": log.progress if log else None})
            self._tell_notes(log)

    def _begin(self, container_id: str, message: Mapping[str, Any]) -> None:
        if container_id in self._logs:
            return
        at = message["at"]
        spool = Spool(message["spool"], tuple(at[0]) if at else None)
        file = LogFile(message["folder"], message["name"], link=message["spool"])
        log = Follower(container_id, spool, file, self.counters)
        try:
            # Watched first, so that nothing that is written from now on is overlooked.
            self._watch(container_id, os.path.dirname(spool.path))
            if at:
                log.resume(at)
            elif message["new"]:
                log.begin()
            else:
                log.find_place()
        except BaseException:
            self._unwatch(container_id)
            log.close()
            raise
        self._logs[container_id] = log
        if at or not message["new"]:
            self._touch(container_id)

    def _watch(self, container_id: str, folder: str) -> None:
        os.stat(folder)
        if self._inotify is None:
            return
        try:
            number = self._inotify.add(folder)
        except OSError as error:
            self._unwatched.add(container_id)
            self._told.append({"id": container_id, "note": f"{folder} cannot be watched ({error.strerror}): polled"})
        else:
            self._watches[number] = container_id
            self._numbers[container_id] = number

    def _unwatch(self, container_id: str) -> None:
        self._unwatched.discard(container_id)
        number = self._numbers.pop(container_id, None)
        if number is not None and self._watches.pop(number, None) is not None and self._inotify is not None:
            self._inotify.remove(number)

    def _forget(self, container_id: str) -> None:
        self._unwatch(container_id)
        self._stuck.pop(container_id, None)
        self._warm.pop(container_id, None)
        log = self._logs.pop(container_id, None)
        if log is not None:
            log.give_up()
            self._tell_notes(log)
            log.close()
        for number in self._waiting.pop(container_id, ()):
            self._told.append({"n": number, "at": None})

    # --- what happens

    def saw(self, events: Mapping[int, int]) -> None:
        """Take what inotify saw."""
        for number, mask in events.items():
            if mask & IN_Q_OVERFLOW:
                self.look_at_all()
                continue
            container_id = self._watches.get(number, "")
            if mask & IN_IGNORED:
                self._watches.pop(number, None)
            if (log := self._logs.get(container_id)) is not None:
                if mask & (IN_CREATE | IN_MOVED_TO):
                    log.spool.look()
                self._touch(container_id)

    def look_at_all(self) -> None:
        """Anything may have happened."""
        for container_id in self._logs:
            self._touch(container_id)

    def _touch(self, container_id: str) -> None:
        if container_id not in self._dirty:
            self._dirty.append(container_id)

    @property
    def busy(self) -> bool:
        """Whether there is something to move."""
        return bool(self._dirty)

    @property
    def patience(self) -> float | None:
        """Seconds until `housekeep` has something to do; None: never, as things are."""
        return RETRY if self._warm or self._stuck or self._unwatched or self._lag else None

    def round(self, limit: float = _SLICE) -> None:
        """Move what there is to move, for about `limit` seconds."""
        end = time.monotonic() + limit
        while self._dirty:
            container_id = self._dirty.popleft()
            if (log := self._logs.get(container_id)) is not None:
                self._move(container_id, log)
            if time.monotonic() > end:
                break

    def _move(self, container_id: str, log: Follower) -> None:
        more = True
        try:
            for _ in range(_TURN):
                more = log.pump()
                if not more:
                    break
        except Exception as error:  # whatever is wrong with one log stays with it
            reason = str(error) if isinstance(error, OSError | BadPlace) else f"{type(error).__name__}: {error}"
            if self._stuck.get(container_id) != reason:
                log.notes.append(f"{log.file.path} cannot be written at the moment: {reason}")
            self._stuck[container_id] = reason
            more = False
        else:
            if log.full:
                self._stuck[container_id] = "no space left on device"
            else:
                self._stuck.pop(container_id, None)
        now = time.monotonic()
        told = self._warm.get(container_id, (now, now))[1]
        if log.taken - log.reported >= _TELL_BYTES:
            self._tell(container_id, log)
            told = now
        self._warm[container_id] = now, told
        if log.notes:
            self._tell_notes(log)
        if more:
            self._dirty.append(container_id)
        elif container_id in self._waiting and container_id not in self._stuck:
            self._answer(container_id, log)

    def _answer(self, container_id: str, log: Follower) -> None:
        """The log of a container that has ended is complete: nothing will be added."""
        progress = log.progress
        for number in self._waiting.pop(container_id):
            self._told.append({"n": number, "at": progress})
        self._tell_figures()
        self._forget(container_id)

    def housekeep(self) -> None:
        """Try again what was stuck, look at what cannot be watched, tell progress, close what is idle."""
        self._lag = sum(self._behind(container_id) for container_id in {*self._dirty, *self._stuck})
        self._tell_figures()
        for container_id in (*self._stuck, *self._unwatched):
            self._touch(container_id)
        now = time.monotonic()
        for container_id, (moved, told) in tuple(self._warm.items()):
            log = self._logs[container_id]
            if log.taken != log.reported and now - told >= _TELL_EVERY:
                self._tell(container_id, log)
                self._warm[container_id] = moved, now
            if now - moved >= _IDLE:
                log.spool.close()
                if log.taken == log.reported:
                    del self._warm[container_id]

    def _behind(self, container_id: str) -> int:
        try:
            return self._logs[container_id].spool.behind() if container_id in self._logs else 0
        except OSError:  # whatever cannot be read is told when it is to be moved
            return 0

    # --- what is told

    def _tell(self, container_id: str, log: Follower) -> None:
        log.reported = log.taken
        self._told.append({"id": container_id, "at": log.progress})
        self._tell_figures()

    def _tell_figures(self) -> None:
        if (figures := self.figures()) != self._told_figures:
            self._told_figures = figures
            self._told.append({"counters": figures})

    def _tell_notes(self, log: Follower | None) -> None:
        if log is not None and log.notes:
            self._told += [{"id": log.id, "note": note} for note in log.notes]
            log.notes.clear()
            self._tell_figures()

    def take_told(self) -> list[Message]:
        """What is to be told, each once."""
        told, self._told = self._told, []
        return told

    def close(self) -> None:
        """Tell how far each log is and let go of it."""
        for container_id, log in self._logs.items():
            if log.taken != log.reported:
                self._tell(container_id, log)
            log.close()
        self._logs.clear()
