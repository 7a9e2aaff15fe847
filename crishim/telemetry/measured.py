"""An interface's implementation with a clock at each call: for the engine and the network, only when somebody looks.

The measured one is made from the interface itself, so that a method that is added is measured without a line here.
Coroutines are timed; of what is entered (a stream, a pull) the entering is; all else is handed on.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from crishim.telemetry.durations import Operations

T = TypeVar("T")


def measured(interface: Any, target: T, operations: Operations) -> T:
    """`target`, an implementation of the abstract class `interface`, whose calls are noted in `operations`."""
    methods: dict[str, Callable[..., Any]] = {}
    for name, function in inspect.getmembers(interface, inspect.isfunction):
        if not name.startswith("_"):
            methods[name] = _method(name, function, target, operations)
    methods["__getattr__"] = lambda self, name: getattr(target, name)
    methods["__repr__"] = lambda self: repr(target)
    made: T = type(f"Measured{interface.__name__}", (interface,), methods)()
    return made


def _method(name: str, function: Callable[..., Any], target: Any, operations: Operations) -> Callable[..., Any]:
    call = getattr(target, name)
    if inspect.iscoroutinefunction(function):

        async def timed(self: object, *args: Any, **kwargs: Any) -> Any:
            with operations.timed(name):
                return await call(*args, **kwargs)

        return timed
    if "ContextManager" in str(inspect.signature(function).return_annotation):

        @asynccontextmanager
        async def entered(self: object, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            context = call(*args, **kwargs)
            with operations.timed(name):
                value = await context.__aenter__()
            try:
                yield value
            except BaseException as error:
                if not await context.__aexit__(type(error), error, error.__traceback__):
                    raise
            else:
                await context.__aexit__(None, None, None)

        return entered
    return lambda self, *args, **kwargs: call(*args, **kwargs)
