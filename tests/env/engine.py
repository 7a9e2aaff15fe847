"""A Docker Engine for tests: a dockerd and containerd of its own, with its own folder, socket and cgroups.

Meant to run in a test world (``world``), whose network, mounts and PIDs it then shares with the tests: pods' pins and
bridges are made where the engine is.  No bridge network, no iptables rules, no AppArmor (a world has no securityfs,
because profiles are the whole kernel's).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from crishim.engine.twins import PREFIX, twin_name
from crishim.front.install.files import TwinFiles, program_bytes
from crishim.front.twins import TwinConf
from tests.env import cgroups, front, linux, processes
from tests.env.http_api import EngineApi, EngineApiError

START_LIMIT = 60.0
STOP_LIMIT = 30.0
ALTERNATIVE_RUNTIME = "alt"
"""A second runtime that every test engine knows, for runtime handlers: the same runc by another name."""


class TestEngine:
    """One engine.  A context manager: started on entry, stopped with nothing left of it on exit."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    def __init__(
        self,
        folder: Path,
        binaries: Path | None = None,
        config: Mapping[str, Any] | None = None,
        flags: Sequence[str] = (),
        *,
        twins: bool = True,
    ) -> None:
        """``folder``: made on start, removed on stop; where overlay2 works; a short path, for the sockets in it.

        ``binaries``: a folder with dockerd, containerd, the shim, runc and docker-init of another engine than the
        system's, and perhaps a daemon.json of keys that belong to it.  ``config``: more keys for daemon.json.
        ``flags``: more flags for dockerd.  ``twins``: whether each runtime has a fronted twin (``front_asks``).
        """
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.log = folder / "dockerd.log"
        self.api = EngineApi(self.socket)
        self._path = f"{binaries}:{_search_path()}" if binaries else _search_path()
        self._config = _own_config(binaries) | dict(config or {})
        self._flags = list(flags)
        self._twins = twins
        self._desk: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._had: set[str] = set()
        self._cgroups = self._cgroup_parents()

    def __repr__(self) -> str:
        return f"<TestEngine {self.folder} {'up' if self.running else 'down'}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    # ------------------------------------------------------------ properties

    @property
    def url(self) -> str:
        """What crishim's --engine takes."""
        return f"unix://{self.socket}"

    @property
    def running(self) -> bool:
        """Whether dockerd lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """dockerd's.  Raises RuntimeError when it is not running."""
        if self._process is None or not self.running:
            raise RuntimeError(f"{self!r} is not running")
        return self._process.pid

    # ------------------------------------------------------------ verbs

    def start(self) -> None:
        """Start dockerd (on what an earlier start left) and wait until it answers.

        Raises RuntimeError with the reason in one line, and the log's end, when a program is missing or it does not.
        """
        if self.running:
            return
        dockerd = self._program("dockerd")
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self._daemon_json()
        self._place_twins(settings)
        (self.folder / "daemon.json").write_text(json.dumps(settings, indent=1))
        (self.folder / "docker.pid").unlink(missing_ok=True)
        command = [
            str(dockerd),
            f"--config-file={self.folder}/daemon.json",
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self.folder}/docker.pid",
            f"--host=unix://{self.socket}",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            *self._flags,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"PATH": self._path},
            )
        self._wait_ready()

    def stop(self) -> None:
        """Stop the engine and its containers and remove all it made: processes, mounts, cgroups, folder.

        Raises OSError naming what would not go.
        """
        self.halt()
        left = self._container_cgroups()
        for pid in [*self._leftovers(), *(pid for cgroup in left for pid in cgroups.pids(cgroup))]:
            processes.kill(pid)
        self._unmount()
        for cgroup in left:
            cgroups.remove_tree(cgroup)
        for parent in self._cgroups:
            with contextlib.suppress(OSError):  # in use by another engine's containers, or never made
                parent.rmdir()
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def halt(self) -> None:
        """Stop dockerd as a service manager would (SIGTERM); its data stays and ``start`` goes on with it."""
        if self._process is None:
            return
        self._had |= self._containers()
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self) -> None:
        """``halt`` and ``start``."""
        self.halt()
        self.start()

    def kill9(self) -> None:
        """End dockerd by SIGKILL; containers and containerd's shims go on until the next start, or ``stop``."""
        if self._process is not None:
            self._had |= self._containers()
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Let dockerd hang (SIGSTOP): it accepts connections and answers nothing until ``thaw``."""
        os.kill(self.pid, signal.SIGSTOP)
        while not processes.stopped(self.pid):  # until then a thread may still answer
            time.sleep(0.001)

    def thaw(self) -> None:
        """Undo ``freeze``."""
        os.kill(self.pid, signal.SIGCONT)

    def front_asks(self, desk: Path | None) -> None:
        """From now on the fronts ask at this socket, so that the server there uses them, once it starts or reads the
        engine's settings anew; None, and at first: at none, and then they start nothing."""
        self._desk = desk
        if self.folder.exists():
            self._place_twins(self._daemon_json())

    # ------------------------------------------------------------ parts

    def _program(self, name: str) -> Path:
        found = shutil.which(name, path=self._path)
        if found is None:
            raise RuntimeError(f"{name} is missing: run tests/env/bootstrap.sh engine")
        return Path(found)

    def _daemon_json(self) -> dict[str, Any]:
        runtime = self._program("runc")
        settings: dict[str, Any] = {"exec-opts": ["native.cgroupdriver=cgroupfs"], "storage-driver": "overlay2"}
        if front.needed():
            runtime = front.build(runtime)
            settings["default-runtime"] = "front"
            settings["runtimes"] = {"front": {"path": str(runtime)}}
        settings |= self._config
        settings["runtimes"] = {ALTERNATIVE_RUNTIME: {"path": str(runtime)}} | settings.get("runtimes", {})
        if self._twins:
            programs = {twin_name(name): {"path": str(self._twin(name).program)} for name in self._runtimes(settings)}
            settings["runtimes"] |= programs
        return settings

    def _runtimes(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """The runtimes that have twins, with their programs."""
        named = {name: str(entry["path"]) for name, entry in settings["runtimes"].items() if "path" in entry}
        return {name: path for name, path in named.items() if not name.startswith(PREFIX)} | {
            "runc": str(self._program("runc"))
        }

    def _twin(self, runtime: str) -> TwinFiles:
        return TwinFiles(self.folder / "front" / twin_name(runtime))

    def _place_twins(self, settings: Mapping[str, Any]) -> None:
        """Write the programs and what they are told."""
        for name, path in self._runtimes(settings).items() if self._twins else ():
            desk = str(self._desk or self.folder / "front" / "nobody.sock")
            self._twin(name).place(program_bytes(), TwinConf(path, desk))

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT
        while True:
            if not self.running:
                raise RuntimeError(f"dockerd ended during its start: {self._last_words()}")
            try:
                self.api.call("GET", "/_ping")
                return
            except (OSError, EngineApiError):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"dockerd does not answer: {self._last_words()}") from None
                time.sleep(0.02)

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return " | ".join(lines[-5:]) or "(its log is empty)"

    def _leftovers(self) -> list[int]:
        """containerd and its shims, told by their arguments, which name our folder; with what runs below them."""
        ours = []
        for pid in processes.pids():
            program, _, arguments = processes.command_line(pid).partition(" ")
            if os.path.basename(program).startswith(("dockerd", "containerd")) and str(self.folder) in arguments:
                ours.append(pid)
        return [*ours, *(kin for pid in ours for kin in processes.descendants(pid))]

    def _unmount(self) -> None:
        for point, *_ in reversed(linux.mounts()):
            if Path(point).is_relative_to(self.folder):
                with contextlib.suppress(FileNotFoundError):
                    linux.umount(point)

    def _container_cgroups(self) -> list[Path]:
        """The cgroups that are named after our containers: what a killed shim does not remove, nor a containerd that
        ends while the runtime deletes a container, though the engine then forgets it."""
        ids = self._had | self._containers()
        return [cgroup for cgroup in cgroups.below_mounts() if cgroup.name in ids]

    def _containers(self) -> set[str]:
        """Ids of the containers that the engine's folder knows."""
        try:
            return set(os.listdir(self.folder / "data" / "containers"))
        except FileNotFoundError:
            return set()

    def _cgroup_parents(self) -> list[Path]:
        """The cgroups that dockerd makes for containers that name none, as far as they do not exist yet."""
        points = [Path(point) for point, fstype, *_ in linux.mounts() if fstype in {"cgroup", "cgroup2"}]
        return [point / "docker" for point in points if not (point / "docker").exists()]


def _own_config(binaries: Path | None) -> dict[str, Any]:
    """The keys for daemon.json that lie beside an engine's programs."""
    file = binaries / "daemon.json" if binaries else None
    return dict(json.loads(file.read_text())) if file and file.exists() else {}


def _search_path() -> str:
    """PATH with the folders that hold dockerd and runc, which a user's PATH may lack."""
    return os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"
