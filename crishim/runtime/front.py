"""What a front is told: the engine's configuration of a container, with what the engine's API could not say.

A pure function of the container's record and the configuration, so that a restart of crishim in between changes
nothing. Whoever is not known, or has nothing that the front is to carry, is refused: a front that did not change
anything would start a container that lacks what was asked for.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

from crishim.aiokit.background import Background
from crishim.aiokit.locks import KeyedLocks
from crishim.errors import ContainerNotFound, InvalidArgument
from crishim.front.wire import STRANGER, Answer, Question
from crishim.runtime.index import Index

log = logging.getLogger(__name__)

Config = dict[str, Any]
"""runtime-spec config.md, or for exec its "Process"."""
Edit = Callable[[Config], Config]
EditOf = Callable[[Index, Question], Edit | None]
"""Gives what is to be done to the configuration a question is about; None: nothing, and then nobody should have
asked."""


class SlowEdit:
    """An edit that waits for the kernel, and so is made in a thread, and that leaves more than its result."""

    def __init__(self, edit: Edit, undo: Callable[[], None]) -> None:
        """`undo`: takes away, in a thread, what the edit has made, as nobody will use it."""
        self._edit = edit
        self.undo = undo

    def __call__(self, config: Config) -> Config:
        return self._edit(config)


_BLOCKING = 1 << 18
"""Bytes of JSON that are read in a thread: below that the loop waits for less than a few milliseconds."""


class Front:
    """Answers the desk's questions."""

    def __init__(self, index: Index, edit_of: EditOf, background: Background) -> None:
        """`background`: owns what goes on after somebody has given up."""
        self._index = index
        self._edit_of = edit_of
        self._background = background
        self._slow = KeyedLocks()

    async def answer(self, question: Question) -> Answer:
        """The configuration as it is to be. Raises CRIError with what is wrong, in words."""
        if question.verb not in ("create", "exec"):
            raise InvalidArgument(f"{question.verb!r} is nothing that a front asks for")
        edit = self._edit_of(self._index, question)
        if edit is None and not (self._index.container(question.id) or self._index.sandbox(question.id)):
            raise ContainerNotFound(f"{STRANGER} {question.id[:13]}; its runtimes are for its own containers only")
        if edit is None:
            raise InvalidArgument(f"there is nothing to carry for container {question.id[:13]}")
        if isinstance(edit, SlowEdit):
            return Answer(await self._slowly(question, edit))
        if len(question.config) < _BLOCKING:
            return Answer(_rewrite(question.config, edit))
        return Answer(await asyncio.to_thread(_rewrite, question.config, edit))

    async def _slowly(self, question: Question, edit: SlowEdit) -> bytes:
        """A thread cannot be broken off: should the front give up meanwhile, what was made is taken away again.

        For each container one after the other, as all are made at the same place.
        """
        async with self._slow.hold(question.id):
            work = asyncio.to_thread(_rewrite, question.config, edit)
            task, cancelled = await self._background.complete(work, name=f"shift for {question.id[:13]}")
            if not cancelled:
                return task.result()
            if task.exception() is None:  # else it has left nothing
                log.warning("what was made for container %s came too late for its front", question.id[:13])
                undo = asyncio.to_thread(edit.undo)
                undone, _ = await self._background.complete(undo, name=f"take back for {question.id[:13]}")
                if (error := undone.exception()) is not None:
                    log.warning("what was made for container %s stays until it goes: %s", question.id[:13], error)
            raise asyncio.CancelledError


def _rewrite(config: bytes, edit: Edit) -> bytes:
    try:
        # Environment values that are not UTF-8 pass through as they are.
        read = json.loads(config.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise InvalidArgument(f"the engine's configuration is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise InvalidArgument("the engine's configuration is no JSON object")
    return json.dumps(edit(read), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")
