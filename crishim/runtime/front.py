"""What a front is told: the engine's configuration of a container, with what the engine's API could not say.

A pure function of the container's record and the configuration, so that a restart of crishim in between changes
nothing. Whoever is not known, or has nothing that the front is to carry, is refused: a front that did not change
anything would start a container that lacks what was asked for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from crishim.errors import ContainerNotFound, InvalidArgument
from crishim.front.wire import STRANGER, Answer, Question
from crishim.runtime.index import Index

Config = dict[str, Any]
"""runtime-spec config.md, or for exec its "Process"."""
Edit = Callable[[Config], Config]
EditOf = Callable[[Index, Question], Edit | None]
"""Gives what is to be done to the configuration a question is about; None: nothing, and then nobody should have
asked."""


class SlowEdit:
    """An edit that waits for the kernel, and so is made in a thread."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit

    def __call__(self, config: Config) -> Config:
        return self._edit(config)


_BLOCKING = 1 << 18
"""Bytes of JSON that are read in a thread: below that the loop waits for less than a few milliseconds."""


class Front:
    """Answers the desk's questions."""

    def __init__(self, index: Index, edit_of: EditOf) -> None:
        self._index = index
        self._edit_of = edit_of

    async def answer(self, question: Question) -> Answer:
        """The configuration as it is to be. Raises CRIError with what is wrong, in words."""
        if question.verb not in ("create", "exec"):
            raise InvalidArgument(f"{question.verb!r} is nothing that a front asks for")
        edit = self._edit_of(self._index, question)
        if edit is None and not (self._index.container(question.id) or self._index.sandbox(question.id)):
            raise ContainerNotFound(f"{STRANGER} {question.id[:13]}; its runtimes are for its own containers only")
        if edit is None:
            raise InvalidArgument(f"there is nothing to carry for container {question.id[:13]}")
        if len(question.config) < _BLOCKING and not isinstance(edit, SlowEdit):
            return Answer(_rewrite(question.config, edit))
        return Answer(await asyncio.to_thread(_rewrite, question.config, edit))


def _rewrite(config: bytes, edit: Edit) -> bytes:
    try:
        # Environment values that are not UTF-8 pass through as they are.
        read = json.loads(config.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise InvalidArgument(f"the engine's configuration is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise InvalidArgument("the engine's configuration is no JSON object")
    return json.dumps(edit(read), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")
