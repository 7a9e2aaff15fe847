"""The streams of an exec in a screenful: the URL of ExecResponse, over WebSocket as `v5.channel.k8s.io` has it."""

from __future__ import annotations

import asyncio
import json

import aiohttp

STDIN, STDOUT, STDERR, STATUS, CLOSE = b"\0", 1, 2, 3, b"\xff"
"""The first byte of each message says whose it is; after 255 comes the number of the stream that has ended."""


def talk(url: str, said: bytes) -> tuple[bytes, int]:
    """What the process prints, and its exit code, when it is told this and then no more."""
    return asyncio.run(_talk(url, said))


async def _talk(url: str, said: bytes) -> tuple[bytes, int]:
    output, status = b"", {}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=["v5.channel.k8s.io"]) as connection,
    ):
        await connection.send_bytes(STDIN + said)
        await connection.send_bytes(CLOSE + STDIN)
        async for message in connection:
            if message.data[0] in (STDOUT, STDERR):
                output += message.data[1:]
            elif message.data[0] == STATUS:
                status = json.loads(message.data[1:])
    if status.get("status") == "Success":
        return output, 0
    codes = [cause["message"] for cause in status["details"]["causes"] if cause["reason"] == "ExitCode"]
    return output, int(codes[0])
