"""A TCP connection to loopback inside a network namespace: only the socket is made there, the rest is the loop's."""

from __future__ import annotations

import asyncio
import os
import socket

from crishim.errors import PortForwardFailed
from crishim.network import netns

_LIMIT = 10.0
"""Seconds for one address: a listener whose queue is full does not answer."""
_ADDRESSES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


async def dial_loopback(path: str, port: int) -> socket.socket:
    """A connected, non-blocking socket to 127.0.0.1:port, else [::1]:port, in the namespace at `path`.

    Raises PortForwardFailed with the reason of each address, and NetnsError when the namespace cannot be entered.
    """
    reasons = []
    for family, address in _ADDRESSES:
        try:
            made = await _make_socket(path, family)
        except OSError as error:  # a kernel without IPv6
            reasons.append(f"{address}: {error.strerror}")
            continue
        try:
            async with asyncio.timeout(_LIMIT):
                await asyncio.get_running_loop().sock_connect(made, (address, port))
        except TimeoutError:
            reasons.append(f"{address}: no answer within {_LIMIT:g} s")
        except OSError as error:
            reasons.append(f"{address}: {os.strerror(error.errno) if error.errno else error}")
        except BaseException:
            made.close()
            raise
        else:
            return made
        made.close()
    raise PortForwardFailed(f"nothing accepts connections on port {port} of the pod ({'; '.join(reasons)})")


async def _make_socket(path: str, family: socket.AddressFamily) -> socket.socket:
    """A socket that belongs to the namespace for ever, wherever it is used."""
    made: list[socket.socket] = []

    def make() -> None:
        made.append(socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC))

    try:
        await netns.in_netns(path, make)
    except asyncio.CancelledError:
        for unused in made:
            unused.close()
        raise
    return made[0]
