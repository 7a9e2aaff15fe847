"""The engine's own process: which one it is, which daemon.json it reads, and making it read that again.

Found by the socket: the process that holds it and is called dockerd. (Where systemd activates the socket, systemd holds
it, too, and SIGHUP to that would be a mistake.)
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crishim.front.install.problems import FrontProblem

DAEMON = "dockerd"
DAEMON_JSON = Path("/etc/docker/daemon.json")
"""Where dockerd looks if it is not told (dockerd(8), --config-file)."""
_NO_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A running dockerd."""

    pid: int
    arguments: tuple[str, ...]
    search_path: str
    folder: str
    """What its relative paths start from."""

    @property
    def daemon_json(self) -> Path:
        """The file of settings that it reads."""
        named = self._flag("config-file")
        return Path(self.folder, named) if named else DAEMON_JSON

    @property
    def adds_runtimes(self) -> bool:
        """Whether its command line names runtimes; then it refuses those of a file."""
        return any(word.lstrip("-").startswith("add-runtime") for word in self.arguments if word.startswith("-"))

    @property
    def default_runtime(self) -> str:
        """The default runtime that its command line names; "" for none."""
        return self._flag("default-runtime")

    def find_program(self, program: str) -> str | None:
        """The absolute path of what it would start; None where there is no such program."""
        found = shutil.which(program, path=self.search_path)
        return os.path.abspath(found) if found and (found.startswith("/") or "/" not in program) else None

    def reload(self) -> None:
        """Make it read its settings again; nothing tells how that went. Raises FrontProblem when it has gone."""
        try:
            os.kill(self.pid, signal.SIGHUP)
        except OSError as error:
            raise FrontProblem(f"cannot make the engine (process {self.pid}) reload: {error.strerror}") from error

    def _flag(self, name: str) -> str:
        value = ""
        for word, following in zip(self.arguments, [*self.arguments[1:], ""], strict=False):
            if word == f"--{name}":
                value = following
            elif word.startswith(f"--{name}="):
                value = word.partition("=")[2]
        return value


def find_engine(engine_socket: Path, peer: int, proc: Path = Path("/proc")) -> EngineProcess:
    """The dockerd behind a socket; `peer` is who opened it for listening. Raises FrontProblem."""
    candidates = [peer] if peer else []
    inodes = set(_sockets_at(engine_socket, proc))
    candidates += (pid for pid in _daemons(proc) if inodes & set(_held(pid, proc)))
    for pid in candidates:
        try:
            if _name(pid, proc) == DAEMON:
                return _read(pid, proc)
        except OSError:
            continue  # it ended this moment
    raise FrontProblem(f"no process called {DAEMON} serves {engine_socket} here, so that none can be made to reload")


def _read(pid: int, proc: Path) -> EngineProcess:
    place = proc / str(pid)
    arguments = (place / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[1:-1]
    environ = (place / "environ").read_bytes().decode(errors="surrogateescape").split("\0")
    search_path = next((line[5:] for line in environ if line.startswith("PATH=")), _NO_PATH)
    return EngineProcess(pid, tuple(arguments), search_path, os.readlink(place / "cwd"))


def _name(pid: int, proc: Path) -> str:
    return (proc / str(pid) / "comm").read_text().strip()


def _daemons(proc: Path) -> Iterator[int]:
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            try:
                if _name(int(entry.name), proc) == DAEMON:
                    yield int(entry.name)
            except OSError:
                continue


def _sockets_at(path: Path, proc: Path) -> Iterator[str]:
    """Inodes of the unix sockets bound there (proc(5): the seventh column, and the eighth is the path)."""
    real = os.path.realpath(path)
    for line in (proc / "net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
        columns = line.split(maxsplit=7)
        if len(columns) == 8 and os.path.realpath(columns[7]) == real:
            yield columns[6]


def _held(pid: int, proc: Path) -> Iterator[str]:
    """Inodes of the sockets that a process holds."""
    try:
        for entry in (proc / str(pid) / "fd").iterdir():
            target = os.readlink(entry)
            if target.startswith("socket:["):
                yield target[8:-1]
    except OSError:
        return
