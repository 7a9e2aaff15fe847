"""Objects whose calls are effects, of which a chosen one fails."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar, cast

from crishim.checkpoint.api import CheckpointStore
from crishim.engine.api import Engine
from crishim.errors import CheckpointFailed, EngineError, EngineUnavailable, Kind, NetworkFailed
from crishim.network.api import PodNetwork

T = TypeVar("T")
MakeError = Callable[[str], Exception]
"""Makes an error from the name of the effect that fails."""

Way = Literal["refused", "lost", "down"]
"""How an effect fails.

`refused`: it does not happen. `lost`: it happens, but its answer does not arrive. `down`: it does not happen, and
neither does any later one of any object, as after a crash of all that is outside; until the run is over.
"""
WAYS: tuple[Way, ...] = ("refused", "lost", "down")


class Faults:
    """Counts the effects of one run and lets one fail.

    Every public method of a wrapped object that is async, or gives an async context manager (entering counts), is an
    effect while `armed`; `close` never is.
    """

    def __init__(self, point: int, way: Way) -> None:
        """`point`: number of the effect that fails, from 1; 0: none."""
        self.armed = False
        """Whether calls count and fail; the driver sets it for the time of the run."""
        self.count = 0
        """Effects so far."""
        self.hit = ""
        """Which effect failed, and how; empty: none yet."""
        self._point = point
        self._way = way

    def engine(self, engine: Engine) -> Engine:
        """Wrap an engine: it refuses with EngineError, and loses answers with EngineUnavailable."""
        return self.wrap(
            engine,
            "engine",
            refused=lambda name: EngineError(f"{name} was refused by the test", kind=Kind.INTERNAL),
            lost=lambda name: EngineUnavailable(f"the answer of {name} was lost by the test"),
        )

    def store(self, store: CheckpointStore) -> CheckpointStore:
        """Wrap a checkpoint store: it fails with CheckpointFailed."""
        return self.wrap(store, "store", refused=lambda name: CheckpointFailed(f"{name} failed by the test"))

    def network(self, network: PodNetwork) -> PodNetwork:
        """Wrap a pod network: it fails with NetworkFailed."""
        return self.wrap(network, "network", refused=lambda name: NetworkFailed(f"{name} failed by the test"))

    def wrap(self, target: T, name: str, *, refused: MakeError, lost: MakeError | None = None) -> T:
        """Wrap any object; `name` is for messages. `lost`: error of a lost answer, if it is another one."""
        return cast(T, _Wrapped(self, target, name, refused, lost or refused))

    def strike(self, name: str) -> Way | None:
        """Count an effect; how it is to fail, if it is."""
        if not self.armed:
            return None
        self.count += 1
        if self.count == self._point:
            self.hit = f"effect {self.count}, {name}: {self._way}"
            return self._way
        return "down" if self._way == "down" and self.hit else None


class _Wrapped:
    """Stands for an object, and looks like it, too, to isinstance."""

    def __init__(self, faults: Faults, target: object, name: str, refused: MakeError, lost: MakeError) -> None:
        for key, value in (
            ("faults", faults),
            ("target", target),
            ("name", name),
            ("refused", refused),
            ("lost", lost),
        ):
            object.__setattr__(self, f"_{key}", value)

    @property  # type: ignore[misc] # what isinstance asks
    def __class__(self) -> type[Any]:
        return type(self._target)

    def __repr__(self) -> str:
        return f"<failing {self._target!r}>"

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._target, name, value)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(object.__getattribute__(self, "_target"), name)
        if name.startswith("_") or name == "close" or not callable(attribute):
            return attribute
        effect = f"{self._name}.{name}"
        if inspect.iscoroutinefunction(attribute):
            return self._calling(effect, attribute)
        return self._entering(effect, attribute)

    def _calling(self, effect: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            way = self._faults.strike(effect)
            if way in ("refused", "down"):
                raise self._refused(effect)
            result = await method(*args, **kwargs)
            if way == "lost":
                raise self._lost(effect)
            return result

        return call

    def _entering(self, effect: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @asynccontextmanager
        async def enter(manager: Any) -> AsyncGenerator[Any, None]:
            way = self._faults.strike(effect)
            if way in ("refused", "down"):
                raise self._refused(effect)
            async with manager as entered:
                if way == "lost":
                    raise self._lost(effect)
                yield entered

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return enter(result) if hasattr(result, "__aenter__") else result

        return call
