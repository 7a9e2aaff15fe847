"""Whether a pod's network is as it was made: asked for a person who looks at the pod, never on our own."""

from __future__ import annotations

import asyncio

from crishim.checkpoint.record import Phase
from crishim.errors import CRIError
from crishim.runtime.attachment import make_attachment
from crishim.runtime.core import Runtime
from crishim.runtime.objects import Sandbox

_LIMIT = 5.0
"""Seconds that whoever looks is kept waiting by plugins; those that take longer are ended."""


async def check_network(rt: Runtime, sandbox: Sandbox) -> str:
    """Return "ok", what is not as it was made, or "" where there is nothing to ask: no network, or not READY.

    Asks the plugins (CNI CHECK); of a CNI version without CHECK, or with `disableCheck`, everything is ok.  A stop
    waits meanwhile: of one container plugins do one thing at a time (CNI 1.1.0, section 3).
    """
    attached = sandbox.record.network
    if attached is None or not attached.result or sandbox.record.phase is not Phase.READY:
        return ""
    try:
        async with asyncio.timeout(_LIMIT), rt.locks.hold(sandbox.id):
            if (now := rt.index.sandbox(sandbox.id)) is None or now.record.phase is not Phase.READY:
                return ""  # it was stopped while we waited
            await rt.network.check(make_attachment(sandbox), attached)
    except TimeoutError:
        return f"not known: no answer within {_LIMIT:g} s"
    except CRIError as error:
        return str(error)
    return "ok"
