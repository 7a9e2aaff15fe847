"""How long each kind of call may take before it counts as unanswered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Limits by kind of call, in seconds. Waiting for an exit, events and pulls have none once they are open.

    The long ones are a kubelet's own limit for such a call (120 s): a busy disk can hold an engine that long, and
    giving up earlier would leave it to find out later what became of the call.
    """

    handshake: float = 10
    inspect: float = 10
    list: float = 20
    """Longer than inspect: an engine with a thousand containers needs about 0.1 s for it when idle."""
    create: float = 120
    start: float = 120
    kill: float = 30
    remove: float = 120
    update: float = 30
    remove_image: float = 120
    load: float = 120
    open_events: float = 10
    """From the request to the stream's head."""
