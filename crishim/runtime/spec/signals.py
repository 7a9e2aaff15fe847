"""Stop signals in the engine's words (CRI `Signal`)."""

from __future__ import annotations

from crishim.model import Signal

_SAME = {"SIGCLD": "SIGCHLD", "SIGIOT": "SIGABRT", "SIGPOLL": "SIGIO"}
"""Second names of signals, which the engine does not know."""


def make_stop_signal(signal: Signal) -> str:
    """The engine's name of a signal; empty for the image's own."""
    if signal is Signal.SIGNAL_RUNTIME_DEFAULT:
        return ""
    name = signal.name.removeprefix("SIGNAL_").replace("PLUS", "+").replace("MINUS", "-")
    return _SAME.get(name, name)
