"""The engine as it is at this moment: connected and read, or away and why.

Away, every verb that needs it fails at once, lists and states stay as they were last known, and the link tries again
by itself. The stream of events is opened first and buffered (the buffer is the watch's set of dirty ids), then
everything is read, so that nothing that happens in between is missed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from crishim.engine.api import Engine
from crishim.engine.values import EngineEvent, EngineFacts
from crishim.errors import CRIError, EngineUnavailable, EngineUnsuitable

log = logging.getLogger(__name__)

COMPARE_EVERY = 30.0
"""Seconds between comparisons with the engine's list: its event stream loses events for a slow listener, silently."""
_RETRY_FIRST, _RETRY_MOST = 0.1, 5.0


class EngineLink:
    """Owns the connection to the engine.

    `on_connect(facts)` reads everything; it is awaited before the link says that the engine is there. `on_event` takes
    each event, synchronously. `on_compare` reads everything again.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        on_connect: Callable[[EngineFacts], Awaitable[None]],
        on_event: Callable[[EngineEvent], None],
        on_compare: Callable[[], Awaitable[None]],
        compare_every: float = COMPARE_EVERY,
    ) -> None:
        self._engine = engine
        self._on_connect = on_connect
        self._on_event = on_event
        self._on_compare = on_compare
        self._compare_every = compare_every
        self._facts: EngineFacts | None = None
        self._error: CRIError | None = EngineUnavailable("the engine has not been reached yet")
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._reloaded = False
        """Whether the engine has read its configuration anew since it was last asked what it is."""
        self._hurry = asyncio.Event()
        """There is something to do before it is time to compare."""
        self._told: dict[Callable[[], None], None] = {}
        self.loaded = False
        """Whether the index was ever complete. Before that there is no last known state to tell."""
        self.connections = 0
        """How often the event stream was opened and everything was read."""
        self.losses = 0
        """How often the engine went away after it was there."""

    def __repr__(self) -> str:
        return f"<EngineLink {'away: ' + str(self._error) if self._error else 'connected'}>"

    @property
    def engine(self) -> Engine:
        """The engine, for a call. Raises EngineUnavailable (or EngineUnsuitable) while it is away."""
        if self._error is not None:
            raise type(self._error)(str(self._error))
        return self._engine

    @property
    def facts(self) -> EngineFacts:
        """What the connected engine is. Raises like `engine`."""
        if self._error is not None or self._facts is None:
            raise type(self._error or EngineUnavailable(""))(str(self._error))
        return self._facts

    @property
    def last_facts(self) -> EngineFacts | None:
        """What the engine was when it was last there; None if it never was."""
        return self._facts

    @property
    def error(self) -> CRIError | None:
        """Why the engine is away, None while it is there."""
        return self._error

    def need_loaded(self) -> None:
        """Raise EngineUnavailable as long as the index has never been complete."""
        if not self.loaded:
            raise EngineUnavailable(f"the engine's containers are not known yet: {self._error}")

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed`, which must not fail, whenever the engine is there or goes away; returns what ends that."""
        self._told[changed] = None
        return lambda: self._told.pop(changed, None)

    async def wait_connected(self, timeout: float) -> bool:
        """Wait until the engine is there, at most `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while self._error is not None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def start(self) -> None:
        """Begin to connect, in the background."""
        self._task = asyncio.create_task(self._run(), name="engine link")

    async def close(self) -> None:
        """Disconnect and stay so."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            self._task = None
        self._error = EngineUnavailable("the connection to the engine is closed")

    async def _run(self) -> None:
        pause = _RETRY_FIRST
        while True:
            began = time.monotonic()
            try:
                await self._session()
            except (EngineUnavailable, EngineUnsuitable) as error:
                self._went_away(error)
            except CRIError as error:
                # What verbs are told must say that the engine is away, not what one question of ours came to: a verb
                # would take the `not found` of a list for its own object's.
                self._went_away(EngineUnavailable(f"reading the engine failed: {error}"))
            except Exception as error:
                # A fault of ours in one comparison must not end the link for good.
                log.exception("reading the engine failed")
                self._went_away(EngineUnavailable(f"reading the engine failed: {type(error).__name__}: {error}"))
            if time.monotonic() - began > _RETRY_MOST:
                pause = _RETRY_FIRST
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_MOST)

    def _went_away(self, error: CRIError) -> None:
        if self._error is None or str(error) != str(self._error):
            log.warning("engine away: %s", error)
        was_there, self._error = self._error is None, error
        if was_there:
            self.losses += 1
            self._tell()

    def _tell(self) -> None:
        for changed in tuple(self._told):
            changed()

    async def _session(self) -> None:
        """One connection, from handshake to loss. Always ends by raising."""
        self._reloaded = False
        self._hurry.clear()
        facts = await self._engine.connect()
        async with self._engine.events() as events:
            reader = asyncio.create_task(self._read(events), name="engine events")
            try:
                await self._unless_ended(reader, self._on_connect(facts))
                self._facts = facts
                self._error = None
                self.loaded = True
                self.connections += 1
                self._changed.set()
                self._tell()
                log.info("engine %s %s, API %d.%d", facts.name, facts.version, *facts.api_version)
                while True:
                    await self._unless_ended(reader, self._compare_time())
                    if self._reloaded:
                        await self._unless_ended(reader, self._learn_anew())
                    else:
                        await self._unless_ended(reader, self._on_compare())
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    async def _compare_time(self) -> None:
        """Return when it is time to compare, or something has happened that a comparison tells."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._compare_every):
                await self._hurry.wait()
        self._hurry.clear()

    async def _learn_anew(self) -> None:
        """Ask the engine what it is now, without a moment in which it is away."""
        self._reloaded = False
        facts = await self._engine.connect()
        await self._on_connect(facts)
        self._facts = facts
        self._tell()
        log.info("the engine has read its configuration anew: runtimes %s", ", ".join(facts.runtimes))

    async def _read(self, events: AsyncIterator[EngineEvent]) -> None:
        async for event in events:
            if event.kind == "daemon":
                self._reloaded = True
                self._hurry.set()
            elif event.kind == "unread":
                self._hurry.set()
            else:
                self._on_event(event)

    async def _unless_ended(self, reader: asyncio.Task[None], work: Awaitable[None]) -> None:
        """Await `work`, or raise what ended the event stream meanwhile."""
        doing = asyncio.ensure_future(work)
        try:
            await asyncio.wait((doing, reader), return_when=asyncio.FIRST_COMPLETED)
            if (not doing.done() or doing.exception() is not None) and reader.done():
                reader.result()
                raise EngineUnavailable("the engine's event stream ended")
            doing.result()
        finally:
            if not doing.done():
                doing.cancel()
                await asyncio.gather(doing, return_exceptions=True)
