"""The one layer around every handler: parse, time, run, and turn a failure into a status of the wire.

Inside, nobody knows a gRPC code; out of here, nothing goes that is not a response or a status. Cancellation passes
through untouched: gRPC has told the caller already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from crishim.aiokit import steps
from crishim.errors import CRIError, InvalidArgument, Kind
from crishim.rpc.status import CODES, wire_text

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[bytes, bytes]

_EXPECTED = frozenset(
    {Kind.INVALID_ARGUMENT, Kind.NOT_FOUND, Kind.ALREADY_EXISTS, Kind.FAILED_PRECONDITION, Kind.UNIMPLEMENTED}
)
"""Kinds that tell of the request rather than of trouble on the node: logged as information."""

_IDS = {"pod_sandbox_id": "sandbox", "container_id": "container"}
"""Fields of requests that name objects, and their names in the log."""


class Failure(Exception):  # noqa: N818 - it is how the call came out, not an error of this module
    """A call came to nothing: the status that the caller gets."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = wire_text(text)


class _CallerLeft(Exception):  # noqa: N818 - nothing went wrong on this side
    """The connection went while a message was on its way."""


class Outcome:
    """Runs handlers. `sinks` are given each call's timed steps when it ends, whatever its outcome."""

    def __init__(self, sinks: Sequence[steps.Sink] = ()) -> None:
        self._sinks = (log_steps, *sinks)
        self.under_way: dict[str, int] = {}
        """Method to its calls that have begun and not ended."""

    def sink(self, call: steps.Call) -> None:
        """Hand a call that has ended to all that want its steps."""
        for sink in self._sinks:
            try:
                sink(call)
            except Exception:
                # What becomes of an account of the call (a full disk) is not what became of the call.
                log.exception("the steps of %s are lost", call.verb)

    def unary(
        self, name: str, request_class: type[Message], handler: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[bytes, Context], Awaitable[bytes]]:
        """The method `name` with one response, a message or its bytes, from its handler."""

        async def method(wire: bytes, context: Context) -> bytes:
            try:
                with _Watch(self, name) as seen:
                    seen.append(request := _parse(request_class, wire))
                    answer = await handler(request)
                    return answer if isinstance(answer, bytes) else answer.SerializeToString()
            except Failure as failure:
                await context.abort(failure.code, failure.text)
                raise  # not reached: abort raises, and gRPC knows what

        return method

    def stream(
        self, name: str, request_class: type[Message], handler: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[bytes, Context], Awaitable[None]]:
        """The method `name` with a stream of responses; its handler returns an iterator over their bytes.

        What is timed is the whole stream, its reader's pauses included. Messages are written from here, rather than
        fetched by gRPC, so that a caller who leaves is noticed here and the generator ends in the same task.
        """

        async def method(wire: bytes, context: Context) -> None:
            try:
                with _Watch(self, name) as seen:
                    seen.append(request := _parse(request_class, wire))
                    async with aclosing(await handler(request)) as messages:
                        await _begin(context)
                        async for message in messages:
                            await _write(context, message)
            except Failure as failure:
                await context.abort(failure.code, failure.text)
            except _CallerLeft:
                pass  # nobody is there to be told anything

        return method

    def failed(self, call: steps.Call, error: BaseException, requests: Sequence[Message]) -> Failure | None:
        """Note and log how a call failed; what its caller is told, None where the error itself goes on."""
        name = call.verb
        if isinstance(error, (asyncio.CancelledError, _CallerLeft)):
            call.outcome = Kind.CANCELLED.value
            return None
        if isinstance(error, CRIError):
            call.outcome = error.kind.value
            level = logging.INFO if error.kind in _EXPECTED else logging.WARNING
            ids = ids_of(*requests) | {k: v for k, v in error.ids.items() if v}
            log.log(level, "%s: %s: %s", name, error.kind.value, error, extra={"ids": ids})
            return Failure(CODES[error.kind], str(error))
        if isinstance(error, Exception):
            call.outcome = Kind.INTERNAL.value
            log.error("%s failed unexpectedly", name, exc_info=error, extra={"ids": ids_of(*requests)})
            text = f"internal error in {name}: {type(error).__name__}; the log has the details"
            return Failure(grpc.StatusCode.INTERNAL, text)
        return None


class _Watch:
    """The block of one call: times it, counts it as under way, and turns what it raises into a `Failure`. It gives a
    list for the request, for the log. A class and no generator, as each read passes through it."""

    __slots__ = ("_call", "_name", "_outcome", "_recording", "_seen")
    _call: steps.Call

    def __init__(self, outcome: Outcome, name: str) -> None:
        self._outcome = outcome
        self._name = name
        self._seen: list[Message] = []

    def __enter__(self) -> list[Message]:
        under_way = self._outcome.under_way
        under_way[self._name] = under_way.get(self._name, 0) + 1
        self._recording = steps.call(self._name, self._outcome.sink)
        self._call = self._recording.__enter__()
        return self._seen

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            failure = None if error is None else self._outcome.failed(self._call, error, self._seen)
        finally:
            self._outcome.under_way[self._name] -= 1
            self._recording.__exit__(kind, error, trace)
        if failure is not None:
            raise failure from error


async def _begin(context: Context) -> None:
    """Tell the caller that it is being listened to, before there is a message: some streams have none for hours."""
    try:
        await context.send_initial_metadata(())
    except Exception as error:
        raise _CallerLeft from error


async def _write(context: Context, message: bytes) -> None:
    try:
        await context.write(message)
    except Exception as error:
        # The message is ready bytes: what can fail is the connection alone, and gRPC has no public error for it.
        raise _CallerLeft from error


def _parse(request_class: type[Message], wire: bytes) -> Message:
    try:
        return request_class.FromString(wire)
    except DecodeError as error:
        raise InvalidArgument(f"not a {request_class.DESCRIPTOR.full_name}: {error}") from error


def ids_of(*requests: Message) -> dict[str, str]:
    """The objects that requests name, for the log: ids, and the pod for one that has none yet."""
    ids: dict[str, str] = {}
    for request in requests:
        for field, name in _IDS.items():
            if value := getattr(request, field, ""):
                ids[name] = value
        if (config := getattr(request, "config", None)) is not None and config.HasField("metadata"):
            metadata = config.metadata
            namespace = getattr(metadata, "namespace", "")
            ids["pod" if namespace else "name"] = f"{namespace}/{metadata.name}" if namespace else metadata.name
    return ids


def log_steps(call: steps.Call) -> None:
    """One line for people who look at where the time goes; nothing unless the level is DEBUG."""
    if log.isEnabledFor(logging.DEBUG):
        parts = ", ".join(
            f"{'*' if step.engine else ''}{step.name} {((step.end or call.end) - step.start) / 1e6:.1f}"
            for step in call.steps
        )
        log.debug(
            "%s %s in %.1f ms, own %.1f (%s)",
            call.verb,
            call.outcome or "OK",
            (call.end - call.start) / 1e6,
            call.own_ns() / 1e6,
            parts or "no steps",
        )
