"""The desk: the unix socket at which fronts ask what a container's configuration is to be.

Idle it is a listening socket and nothing else. Only root gets an answer: the socket's mode says so, and each caller's
uid is looked at (SO_PEERCRED, unix(7)). Whatever goes wrong becomes words that the engine passes on, never an answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

from crishim.errors import CRIError
from crishim.front.wire import Answer, BadQuestion, Question, encode_answer, encode_refusal, read_question

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that an exchange may take: the front has given up by then."""
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_MODE = 0o600
_BACKLOG = 512

Answering = Callable[[Question], Awaitable[Answer]]
"""Gives the answer, or raises CRIError with the words of a refusal."""


class Desk:
    """Answers fronts at a socket from `start` to `stop`."""

    def __init__(self, path: Path, answering: Answering, *, uid: int = 0) -> None:
        """`uid`: the user whose processes are answered."""
        self.path = path
        self.answered = 0
        """Questions that got an answer."""
        self.refused = 0
        """Questions that got words."""
        self._answering = answering
        self._uid = uid
        self._server: asyncio.Server | None = None
        self._exchanges: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Desk {self.path} {'open' if self._server else 'closed'}, {len(self._exchanges)} asking>"

    async def start(self) -> None:
        """Listen; what a killed server left at the path is replaced. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            # Linux makes the file with the mode that the socket has before; the umask is all threads' of the process.
            os.fchmod(listening.fileno(), _MODE)
            listening.bind(os.fspath(self.path))
        except BaseException:
            listening.close()
            raise
        self._server = await asyncio.start_unix_server(self._accept, sock=listening, backlog=_BACKLOG)

    async def stop(self) -> None:
        """Listen no more, and end what is under way: those fronts fail. May come twice.

        What a thread has begun comes to its end, but nobody waits for that longer than a front would.
        """
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for exchange in self._exchanges:
            exchange.cancel()
        if exchanges := tuple(self._exchanges):
            _, late = await asyncio.wait(exchanges, timeout=PATIENCE)
            if late:
                log.warning("%d of what fronts have asked for is still being made", len(late))
        self.path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = asyncio.create_task(self._exchange(reader, writer), name="front asking")
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(await self._reply(reader, writer))
                await writer.drain()
                # Closing while the rest of a question that was not read lies there would take the words away again.
                writer.write_eof()
                while await reader.read(1 << 16):
                    pass
        except (TimeoutError, OSError) as error:  # it has gone, and fails by itself
            log.warning("a front did not wait for its answer: %s", str(error) or "too slow")
        finally:
            writer.transport.abort()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """What goes back, whatever comes."""
        what = "a question"
        try:
            uid = _peer_uid(writer)
            if uid != self._uid:
                raise BadQuestion(f"only user {self._uid} is answered, not {uid}")
            question = await read_question(reader)
            what = f"{question.verb} of {question.id[:13]}"
            reply = encode_answer(await self._answering(question))
        except (BadQuestion, CRIError, ValueError) as error:
            words = error.message if isinstance(error, CRIError) else str(error)
        except Exception as error:
            # A fault of ours must not look like an answer, nor end the server.
            log.exception("the front's %s", what)
            words = f"internal error: {type(error).__name__}"
        else:
            self.answered += 1
            return reply
        self.refused += 1
        log.warning("refused %s: %s", what, words)
        return encode_refusal(words)


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    connected: socket.socket = writer.get_extra_info("socket")
    _, uid, _ = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)
