"""Running plugins of ours in this process: an `Invoker` that a `CNI` takes in place of `ExecInvoker`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import threading
import time
from collections.abc import Callable, Mapping

from cni.errors import InvocationFailed, PluginCrashed, PluginError, PluginNotFound, PluginTimeout
from cni.invoke import Invoker
from cni.plugins import dispatch
from cni.plugins.api import CallFailed, Plugin

EMBEDDED: Mapping[str, str] = {
    "bridge": "cni.plugins.bridge:Bridge",
    "host-local": "cni.plugins.host_local:HostLocal",
    "loopback": "cni.plugins.loopback:Loopback",
    "portmap": "cni.plugins.portmap:Portmap",
    "bandwidth": "cni.plugins.bandwidth:Bandwidth",
}
"""Where each type's class is; imported at first use."""

_GRACE = 5.0  # seconds beyond its time that a verb gets to undo what it did


def load(kind: str) -> Plugin:
    """Make the plugin of type `kind`.  Raises PluginNotFound."""
    try:
        module, _, name = EMBEDDED[kind].partition(":")
    except KeyError:
        raise PluginNotFound(kind, f"not one of the embedded plugins: {', '.join(EMBEDDED)}") from None
    plugin = getattr(importlib.import_module(module), name)()
    assert isinstance(plugin, Plugin), f"{EMBEDDED[kind]} is no plugin"
    return plugin


class EmbeddedInvoker(Invoker):
    """Runs embedded plugins, each call in a thread of its own.  Knows which containers' calls have not ended yet."""

    def __init__(self, otherwise: Invoker | None = None) -> None:
        """`otherwise`: runs types that are not embedded; None: they are not found."""
        self._otherwise = otherwise
        self._plugins: dict[str, Plugin] = {}
        self._running: dict[str, list[_Run]] = {}

    def __repr__(self) -> str:
        return f"EmbeddedInvoker(otherwise={self._otherwise!r})"

    def find(self, plugin: str) -> str:
        if plugin in EMBEDDED:
            return f"embedded:{plugin}"
        if self._otherwise is not None:
            return self._otherwise.find(plugin)
        raise PluginNotFound(plugin, f"not one of the embedded plugins: {', '.join(EMBEDDED)}")

    async def invoke(self, plugin: str, environment: Mapping[str, str], stdin: bytes, timeout: float) -> bytes:
        """Run a verb in a thread; `Invoker.invoke` says the rest.

        A verb that is cancelled, or out of time, undoes what it did before this raises.  Only where the kernel does
        not let the thread go for five seconds more this raises without it; the next verb for the container then waits
        for its end.
        """
        if plugin not in EMBEDDED and self._otherwise is not None:
            return await self._otherwise.invoke(plugin, environment, stdin, timeout)
        if plugin not in self._plugins:
            self._plugins[plugin] = load(plugin)
        verb, container = environment.get("CNI_COMMAND", ""), environment.get("CNI_CONTAINERID", "")
        began = time.monotonic()
        if container:
            await self._earlier(plugin, verb, container, timeout)
        run = _Run(self._plugins[plugin], dict(environment), stdin, began + timeout)
        run.start(lambda: self._ended(container, run))
        if container:
            self._running.setdefault(container, []).append(run)  # before any callback of its thread can come
        try:
            output = await _patiently(run.answered, run.stopping, began + timeout - time.monotonic())
        except TimeoutError as error:
            raise PluginTimeout(plugin, verb, f"no answer within {timeout:g} s") from error
        except CallFailed as error:
            raise PluginError(plugin, verb, error.code, error.message, error.details) from error
        except Exception as error:
            raise PluginCrashed(plugin, verb, f"{type(error).__name__}: {error}") from error
        return output

    async def settle(self, container_id: str) -> None:
        """Wait until no work for `container_id` is under way, deferred work included.

        To be called before what DEL took away is reported gone.  Raises InvocationFailed when the deferred part of
        the last DEL failed, once: then run DEL again.
        """
        runs = list(self._running.get(container_id, ()))
        for run in runs:
            await asyncio.shield(run.ended)
        for run in runs:
            self._forget(container_id, run)
        for run in runs:
            if run.failure is not None:
                raise InvocationFailed(run.plugin.type, "DEL", str(run.failure)) from run.failure

    async def _earlier(self, plugin: str, verb: str, container: str, timeout: float) -> None:
        """Wait for the end of earlier calls for `container`; what failed of their deferred work is done again now."""
        try:
            async with asyncio.timeout(timeout):
                for run in list(self._running.get(container, ())):
                    if verb == "DEL" and run.plugin.type != plugin:
                        # One of the same chain, perhaps: what it put off concerns nobody but itself.
                        await asyncio.wait([run.answered])
                    else:
                        await asyncio.shield(run.ended)
                        self._forget(container, run)
        except TimeoutError as error:
            raise PluginTimeout(plugin, verb, f"an earlier call has not ended within {timeout:g} s") from error

    def _ended(self, container: str, run: _Run) -> None:
        if run.failure is None:
            self._forget(container, run)

    def _forget(self, container: str, run: _Run) -> None:
        runs = self._running.get(container, [])
        if run in runs:
            runs.remove(run)
        if not runs:
            self._running.pop(container, None)


class _Run:
    """One verb in its thread."""

    def __init__(self, plugin: Plugin, environment: Mapping[str, str], stdin: bytes, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self.plugin = plugin
        self.stopping = threading.Event()
        self.answered: asyncio.Future[bytes] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.failure: Exception | None = None
        """What the deferred work raised."""
        self._loop = loop
        self._ask = (environment, stdin, deadline)

    def start(self, at_end: Callable[[], None]) -> None:
        self._at_end = at_end
        threading.Thread(target=self._body, name=f"cni-{self.plugin.type}", daemon=True).start()

    def _body(self) -> None:
        environment, stdin, deadline = self._ask
        try:
            answer = dispatch.run(self.plugin, environment, stdin, deadline, self.stopping)
        except Exception as error:
            self._tell(self._settle, self.answered, b"", error)
        except BaseException as error:  # that it ends this thread must not become that it ends the loop
            self._tell(self._settle, self.answered, b"", RuntimeError(str(error)))
        else:
            self._tell(self._settle, self.answered, answer.output, None)
            try:
                for work in answer.deferred:
                    work()
            except Exception as error:
                self.failure = error
        self._tell(self._finish)

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    @staticmethod
    def _settle(future: asyncio.Future[bytes], output: bytes, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(output)
        else:
            future.set_exception(error)

    def _finish(self) -> None:
        self.ended.set_result(None)
        self._at_end()


async def _patiently(answered: asyncio.Future[bytes], stopping: threading.Event, timeout: float) -> bytes:
    """Wait for the answer.  Out of time or cancelled: tell the thread, and give it some time to undo its work.

    Raises TimeoutError, CancelledError, or what the thread raised in time.
    """
    try:
        await asyncio.wait([answered], timeout=max(timeout, 0))
        if answered.done():
            return answered.result()
    except asyncio.CancelledError:
        stopping.set()
        await _wait(answered)
        raise
    stopping.set()
    await _wait(answered)
    raise TimeoutError


async def _wait(answered: asyncio.Future[bytes]) -> None:
    """Wait for the end of what was stopped, cancellations notwithstanding, for a bounded time."""
    until = time.monotonic() + _GRACE
    while not answered.done() and (left := until - time.monotonic()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([answered], timeout=left)
    if answered.done():
        answered.exception()  # seen: the caller is told of the cancellation or the timeout
    else:
        answered.add_done_callback(lambda late: late.exception())
