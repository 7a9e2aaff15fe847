"""Names of signals as engines and images write them, as CRI's `Signal`."""

from __future__ import annotations

import signal

from crishim.model import Signal

_RTMIN, _RTMAX = 34, 64
"""Linux's real-time signals as C libraries hand them to programs."""


def parse_signal(text: str) -> Signal:
    """`SIGTERM`, `TERM`, `sigrtmin+3` or `15`; `SIGNAL_RUNTIME_DEFAULT` for an empty text and for what is no signal."""
    name = text.strip().upper()
    if name.isascii() and name.isdigit():
        name = _name_of(int(name))
    name = name.removeprefix("SIG")
    if name[:6] in ("RTMIN+", "RTMAX-") and name[6:].isdigit():
        # An image may count from either end and beyond the middle; the interface has one name for each.
        distance = int(name[6:])
        name = _name_of(_RTMIN + distance if name.startswith("RTMIN") else _RTMAX - distance).removeprefix("SIG")
    known = f"SIGNAL_SIG{name}".replace("+", "PLUS").replace("-", "MINUS")
    return Signal.__members__.get(known, Signal.SIGNAL_RUNTIME_DEFAULT)


def _name_of(number: int) -> str:
    if number in (_RTMIN, _RTMAX):
        return "SIGRTMIN" if number == _RTMIN else "SIGRTMAX"
    if _RTMIN < number <= _RTMIN + 15:
        return f"SIGRTMIN+{number - _RTMIN}"
    if _RTMIN < number < _RTMAX:
        return f"SIGRTMAX-{_RTMAX - number}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
