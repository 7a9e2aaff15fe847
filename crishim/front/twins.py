"""Which runtime a front becomes, and which server it asks.

The program of a fronted twin (`crishim.engine.twins`) has a file beside it, with the program's own path and `.conf`:

    line 1    absolute path of the real runtime
    line 2    absolute path of the desk's socket
    the rest  arguments that the engine gives this runtime (`runtimeArgs` in daemon.json), one per line
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crishim.engine.twins import twin_name

DESK = "front.sock"
"""The desk's socket, in the server's run_dir."""


@dataclass(frozen=True, slots=True)
class TwinConf:
    """What the file beside a front says."""

    runtime: str
    desk: str
    arguments: tuple[str, ...] = ()

    def text(self) -> str:
        """The file's content. Raises ValueError for what cannot stand on a line."""
        lines = (self.runtime, self.desk, *self.arguments)
        if any(not line or "\n" in line or "\0" in line for line in lines):
            raise ValueError(f"cannot be told to the front: {lines!r}")
        return "".join(f"{line}\n" for line in lines)


def marker_path(desk: Path, container_id: str) -> Path:
    """The file whose being there makes the front ask at each exec in this container, too; its folder may not exist."""
    return desk.with_suffix("") / "exec" / container_id


def conf_path(program: str | Path) -> Path:
    """Where the file of the front at `program` lies."""
    return Path(f"{program}.conf")


def read_conf(program: str | Path) -> TwinConf:
    """What the front at `program` is told. Raises OSError, and ValueError for a file that says nothing of use."""
    lines = conf_path(program).read_text("utf-8", "surrogateescape").splitlines()
    if len(lines) < 2 or not all(line.startswith("/") for line in lines[:2]):
        raise ValueError(f"{conf_path(program)} does not name a runtime and a socket")
    return TwinConf(lines[0], lines[1], tuple(lines[2:]))


def usable_twins(programs: Mapping[str, str], desk: Path | None) -> dict[str, str]:
    """Of twins' programs by runtime, the names of those that ask at this desk."""
    found = {}
    for runtime, program in programs.items():
        try:
            conf = read_conf(program)
        except (OSError, ValueError):
            continue  # somebody's own runtime that is called so, or one half taken away
        if desk is not None and conf.desk == str(desk):
            found[runtime] = twin_name(runtime)
    return found
