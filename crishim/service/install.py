"""`crishim install-service`: writes the systemd unit, and a configuration file to begin with where there is none."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path

UNIT = Path("etc/systemd/system/crishim.service")
CONFIG = Path("etc/crishim/config.toml")

_FIRST_CONFIG = """\
# Settings of crishim; docs/configuration.md explains each, `crishim serve --print-config` shows what is in force.

# For a node of a cluster: it waits for the CNI configuration that a network provider installs, and never hands out
# addresses of its own. On a lone machine take this line away: pods then get a network that needs nothing installed.
network = "cni"

# The engine, if it does not listen at the usual place:
# engine = "unix:///var/run/docker.sock"
"""


def install(root: Path, command: str) -> list[Path]:
    """Write both files below `root`; returns those written. An existing configuration is left as it is.

    `command` starts crishim. Raises OSError.
    """
    unit = files("crishim.service").joinpath("crishim.service").read_text("utf-8").replace("@CRISHIM@", command)
    written = [_write(root / UNIT, unit)]
    if not (root / CONFIG).exists():
        written.append(_write(root / CONFIG, _FIRST_CONFIG))
    return written


def own_command() -> str:
    """How systemd starts this very installation, with an absolute path."""
    started = Path(sys.argv[0])
    if started.name == "crishim" and (found := shutil.which(os.fspath(started))):
        return quote(os.path.abspath(found))
    return f"{quote(sys.executable)} -m crishim"


def quote(path: str) -> str:
    """A path as one word of `ExecStart=` (systemd.service(5): quotes, backslash, and doubled `%` and `$`)."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(c.isspace() or c in "\"';\\" for c in path) else escaped


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text, "utf-8")
    draft.chmod(0o644)
    draft.replace(path)
    return path
