"""A writer without a process of its own: does what it is asked on the spot, and nothing unasked.

For tests in virtual time. Lines are moved when a log is reopened or completed, or `settle` is called.
"""

from __future__ import annotations

from collections.abc import Mapping

from crishim.errors import LogFailed
from crishim.logs.api import LogPlaces, LogProgress, LogWriter
from crishim.logs.desk import Desk
from crishim.logs.messages import make_begin, make_order, parse_progress


class InlineLogWriter(LogWriter):
    """Runs a desk within the caller."""

    def __init__(self) -> None:
        super().__init__()
        self._desk = Desk()
        self._number = 0
        self._counters: Mapping[str, object] = self._desk.figures()

    def __repr__(self) -> str:
        return f"<InlineLogWriter {self._desk!r}>"

    async def begin(self, places: LogPlaces, at: LogProgress | None, *, new: bool) -> LogProgress | None:
        """See LogWriter."""
        return self._ask(make_begin(self._next(), places, at, new=new))

    async def complete(self, container_id: str) -> LogProgress | None:
        """See LogWriter. Raises LogFailed where the log cannot be written to its end at once."""
        return self._ask(make_order(self._next(), "complete", container_id))

    async def reopen(self, container_id: str) -> LogProgress | None:
        """See LogWriter."""
        self.settle()
        return self._ask(make_order(self._next(), "reopen", container_id))

    async def drop(self, container_id: str) -> None:
        """See LogWriter."""
        self._ask(make_order(self._next(), "drop", container_id))

    def mark_late(self, container_id: str) -> None:
        """See LogWriter."""
        self._desk.order(make_order(self._next(), "late", container_id))

    def state(self) -> Mapping[str, object]:
        """See LogWriter. Logs are not counted, and there is no writer to restart."""
        return {"pid": 0, **self._counters}

    async def close(self) -> None:
        """See LogWriter."""
        self._desk.close()
        self._deliver(0)

    def settle(self) -> None:
        """Move all that there is."""
        self._desk.look_at_all()
        while self._desk.busy:
            self._desk.round()
        self._deliver(0)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ask(self, message: dict[str, object]) -> LogProgress | None:
        self._desk.order(message)
        while self._desk.busy:
            self._desk.round()
        number = self._number
        answer = self._deliver(number)
        if answer is None:
            raise LogFailed("the log cannot be written to its end at the moment")
        if "error" in answer:
            raise LogFailed(str(answer["error"]))
        return parse_progress(answer["at"])

    def _deliver(self, number: int) -> Mapping[str, object] | None:
        answer = None
        for told in self._desk.take_told():
            if told.get("n") == number:
                answer = told
            elif "counters" in told:
                self._counters = told["counters"]
            elif "note" in told:
                self.on_note(told["id"], told["note"])
            elif "id" in told and (progress := parse_progress(told["at"])) is not None:
                self.on_progress(told["id"], progress)
        return answer
