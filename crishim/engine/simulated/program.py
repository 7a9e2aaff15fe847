"""What a simulated container's process does: a tiny table, enough for harnesses.

| command line | behaviour |
|---|---|
| `true`, `false` | exit 0, exit 1, at once |
| `sleep N` (N in seconds, or `infinity`) | exit 0 after N seconds of the engine's clock |
| `sh -c "exit N"` | exit N at once |
| `sh -c "sleep N"`, `sh -c "sleep N; exit M"` | exit 0 (or M) after N seconds |
| first word begins with one of the engine's `missing` prefixes | cannot be started (exit code 127) |
| `echo WORDS` | print them and exit 0 at once |
| anything else | runs until a signal ends it |

A signal ends a process as its default action says, with exit code 128 + number, except: a command line that holds the
word `ignore-term`, or a shell's `trap '' TERM`, goes on after SIGTERM and SIGINT; a program called `pause` exits 0 on
them.
"""

from __future__ import annotations

import posixpath
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from crishim.errors import EngineError, Kind

DEFAULT_MISSING = ("/missing", "/nonexistent", "/no-such", "/no/such")
_HARMLESS = frozenset({signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH})
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_SCRIPT = re.compile(
    r"\s*(?:sleep\s+(?P<sleep>[0-9.]+|infinity)\s*)?(?:;?\s*(?:exec\s+)?exit\s+(?P<code>\d+)\s*)?;?\s*"
)
_TRAP = re.compile(r"trap\s+(''|\"\"|:|true)\s+([A-Z0-9 ]*\b)?(SIG)?TERM\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A process's course: when it ends by itself, and how it takes a request to stop."""

    ends_after: float | None = None
    """Seconds; None: never by itself."""
    exit_code: int = 0
    """Of its own end."""
    output: bytes = b""
    """What it prints first of all."""
    missing: bool = False
    """The executable does not exist."""
    ignores_term: bool = False
    ends_well_on_term: bool = False

    def exit_code_on(self, number: int) -> int | None:
        """Exit code with which this signal ends the process; None: it goes on."""
        if number == signal.SIGKILL:
            return 128 + number
        if number in _HARMLESS:
            return None
        if number in (signal.SIGTERM, signal.SIGINT):
            if self.ignores_term:
                return None
            if self.ends_well_on_term:
                return 0
        return 128 + number


def parse_program(argv: Sequence[str], missing: Sequence[str] = DEFAULT_MISSING) -> Program:
    """The course of a command line by this module's table. `missing`: prefixes of executables that do not exist."""
    first, rest = argv[0], argv[1:]
    name = posixpath.basename(first)
    if first.startswith(tuple(missing)):
        return Program(missing=True)
    if name in ("true", "false"):
        return Program(ends_after=0, exit_code=int(name == "false"))
    if name == "echo":
        return Program(ends_after=0, output=" ".join(rest).encode() + b"\n")
    if name == "sleep" and rest and (seconds := _seconds(rest[0])) is not None:
        return Program(ends_after=seconds)
    if name in _SHELLS and len(rest) == 2 and rest[0] == "-c" and (found := _SCRIPT.fullmatch(rest[1])):
        sleep, code = found["sleep"], found["code"]
        if sleep != "infinity" and (sleep or code or not rest[1].strip()):
            return Program(ends_after=float(sleep or 0), exit_code=int(code or 0) & 0xFF)
    return Program(
        ignores_term=any(word == "ignore-term" or _TRAP.search(word) for word in argv),
        ends_well_on_term=name == "pause",
    )


def _seconds(word: str) -> float | None:
    try:
        seconds = float(word.removesuffix("s"))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def parse_signal(text: str) -> int:
    """Number of a signal given as `SIGTERM`, `TERM`, `SIGRTMIN+3` or `15`. Raises EngineError as an engine would."""
    name = text.upper().removeprefix("SIG")
    if name.isdigit():
        number = int(name)
    elif found := re.fullmatch(r"(RTMIN|RTMAX)(?:([+-])(\d+))?", name):
        base = int(signal.SIGRTMIN if found[1] == "RTMIN" else signal.SIGRTMAX)
        number = base + int(f"{found[2] or '+'}{found[3] or 0}")
    else:
        number = int(getattr(signal, f"SIG{name}", 0))
    if not 0 < number <= signal.SIGRTMAX:
        raise EngineError(f"invalid signal: {text}", kind=Kind.INVALID_ARGUMENT)
    return number
