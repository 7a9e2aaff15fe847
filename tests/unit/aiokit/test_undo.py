"""Effects are undone in reverse, to the end, whatever the caller suffers meanwhile."""

# ruff: noqa: PT012 - what is raised in an undo stack is raised amid its effects

from __future__ import annotations

import asyncio

import pytest

from crishim.aiokit.background import Background
from crishim.aiokit.undo import UndoFailure, UndoStack


class Book:
    """What was done and undone, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.background = Background()
        self.failures: list[UndoFailure] = []

    def stack(self, **settings: float) -> UndoStack:
        return UndoStack("test", self.background, on_incomplete=self.failures.append, **settings)

    async def do(self, what: str, turns: int = 1) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        self.lines.append(what)
        return what

    async def undo(self, what: str) -> None:
        await self.do(f"un-{what}")


async def test_forgotten_effects_stay() -> None:
    book = Book()
    async with book.stack() as undo:
        assert await undo.effect("a", book.do("a"), book.undo) == "a"
        undo.forget()
    assert book.lines == ["a"]


async def test_an_error_undoes_in_reverse_and_goes_on() -> None:
    book = Book()
    with pytest.raises(KeyError, match="original"):
        async with book.stack() as undo:
            await undo.effect("a", book.do("a"), book.undo)
            undo.push("b", lambda: book.lines.append("un-b"))
            await undo.effect("c", book.do("c"), book.undo)
            raise KeyError("original")
    assert book.lines == ["a", "c", "un-c", "un-b", "un-a"]
    assert len(book.background) == 0


async def test_a_failed_effect_has_no_undo() -> None:
    book = Book()

    async def fail() -> str:
        raise KeyError("c")

    with pytest.raises(KeyError):
        async with book.stack() as undo:
            await undo.effect("a", book.do("a"), book.undo)
            await undo.effect("c", fail(), book.undo)
    assert book.lines == ["a", "un-a"]


async def test_an_effect_is_completed_though_the_caller_is_cancelled_and_then_undone() -> None:
    book = Book()

    async def work() -> None:
        async with book.stack() as undo:
            await undo.effect("a", book.do("a", turns=5), book.undo)
            book.lines.append("not reached")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # an impatient one
    await asyncio.wait((task,))
    assert task.cancelled()
    assert book.lines == ["a", "un-a"]


async def test_undoing_is_not_cancelled() -> None:
    book, begun = Book(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await book.do("un-slow", turns=10)

    async def work() -> None:
        async with book.stack() as undo:
            await undo.effect("a", book.do("a"), book.undo)
            undo.push("slow", slow)
            raise KeyError("original")

    task = asyncio.create_task(work())
    await begun.wait()
    for _ in range(5):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait((task,))
    assert book.lines == ["a", "un-slow", "un-a"]
    assert isinstance(task.exception(), KeyError)


async def test_the_first_undo_that_fails_ends_the_undoing() -> None:
    book = Book()

    def fail() -> None:
        raise OSError("busy")

    with pytest.raises(KeyError):
        async with book.stack() as undo:
            await undo.effect("a", book.do("a"), book.undo)
            undo.push("b", fail)
            await undo.effect("c", book.do("c"), book.undo)
            raise KeyError("original")
    assert book.lines == ["a", "c", "un-c"]
    assert [(f.what, f.step, str(f.error)) for f in book.failures] == [("test", "b", "busy")]
    assert book.background.undo_failures == 1
    assert "['a', 'b']" in repr(undo)


async def test_undoing_has_a_deadline() -> None:
    book = Book()
    with pytest.raises(KeyError):
        async with book.stack(deadline=0.01) as undo:
            undo.push("for ever", lambda: asyncio.Event().wait())
            raise KeyError("original")
    assert isinstance(book.failures[0].error, TimeoutError)
    assert len(book.background) == 0


async def test_an_effect_that_failed_under_a_cancellation_is_a_cancellation() -> None:
    book = Book()

    async def fail_late() -> str:
        await asyncio.sleep(0.001)
        raise KeyError("c")

    async def work() -> None:
        async with book.stack() as undo:
            await undo.effect("c", fail_late(), book.undo)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, KeyError) or caught.value.__context__ is not None
