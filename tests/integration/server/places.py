"""A look at every container's processes, again and again: whether one ever lives elsewhere than its pod does."""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from tests.env import cgroups, processes
from tests.env.engine import TestEngine
from tests.integration.server.serving import CrishimServer

_VERBS = {"create", "start", "exec"}
KINDS = ("net", "ipc", "uts")
_IN_CONTAINER = re.compile(r"/([0-9a-f]{64})$", re.MULTILINE)
_RUNTIME = re.compile(r"(\S*/)?runc(:\S*)? init\b|\[?runc:")
"""The runtime on its way into the container, whose program it then becomes."""


class Places:
    """Looks at /proc all the time inside the block; at its end nobody may have been elsewhere.

    Asks neither server nor engine, which may be dead: a process's container is told by its cgroup, the container's pod
    by the engine's file about it, and the pod's namespaces by their pins, once they were seen.
    """

    def __init__(self, server: CrishimServer, engine: TestEngine) -> None:
        self.looked = 0
        """Processes of pods' containers that were found where they belong."""
        self.pods: set[str] = set()
        """Those pods."""
        self.ids: set[str] = set()
        """Of all that the engine had meanwhile."""
        self.astray: list[str] = []
        self._server = server
        self._containers = engine.folder / "data" / "containers"
        self._homes: dict[str, str] = {}
        self._pins: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._host = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in KINDS}
        self._stop = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="places")

    def __enter__(self) -> Places:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._failed == []
        assert self.astray == []

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.005):
                self.ids.update(os.listdir(self._containers))
                for pid in processes.pids():
                    self._look(pid)
        except BaseException as error:
            self._failed.append(error)

    def _look(self, pid: int) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):
            found = _IN_CONTAINER.search(Path(f"/proc/{pid}/cgroup").read_text())
            home = self._home_of(found[1]) if found else ""
            command = processes.command_line(pid) if home else ""
            if not command or _RUNTIME.match(command):
                return
            # Only now: whoever has become the container's program has come to its place before.
            lives = {kind: os.stat(f"/proc/{pid}/ns/{kind}").st_ino for kind in KINDS}
            wanted = self._pins_of(home)
            wrong = [k for k in KINDS if lives[k] == self._host[k] or wanted.get(k, lives[k]) != lives[k]]
            if wrong:
                where = f"{lives}, pinned {wanted}, host {self._host}"
                self.astray.append(f"{command} of pod {home[:13]}: {wrong} of {where}")
            elif "net" in wanted:
                self.looked += 1
                self.pods.add(home)

    def _home_of(self, container_id: str) -> str:
        """The pod of a container; empty for what is no pod's container, and for pause processes."""
        if container_id not in self._homes:
            words = (
                json.loads((self._containers / container_id / "config.v2.json").read_text())["Config"]["Labels"] or {}
            )
            is_container = words.get("io.kubernetes.docker.type") == "container"
            self._homes[container_id] = words["io.kubernetes.sandbox.id"] if is_container else ""
        return self._homes[container_id]

    def _pins_of(self, sandbox_id: str) -> dict[str, int]:
        """The pod's namespaces, which stay what they are as long as there is a container."""
        known = self._pins[sandbox_id]
        folder = self._server.folder / "run" / "pods" / sandbox_id
        paths = {"net": self._server.pins / f"crishim-{sandbox_id}", "ipc": folder / "ipc", "uts": folder / "uts"}
        for kind, path in paths.items():
            if kind not in known:
                with suppress(FileNotFoundError):
                    status = path.stat()
                    if status.st_dev == os.stat("/proc/self/ns/net").st_dev:  # not the file below a pin
                        known[kind] = status.st_ino
        return known


def end_what_the_engine_lost(ids: set[str]) -> list[str]:
    """End the processes, and remove the cgroups, of these containers; returns the processes' commands.

    A runtime that is killed leaves its half-made container, and an engine that is killed in the middle of a start does
    not know later that it took place: neither engine nor server can tell of these.
    """
    ended = []
    for cgroup in [cgroup for cgroup in cgroups.below_mounts() if cgroup.name in ids]:
        for pid in cgroups.pids(cgroup):
            ended.append(processes.command_line(pid))
            processes.kill(pid)
        cgroups.remove_tree(cgroup)
    return ended


def kill_a_runtime(engine: TestEngine, chance: random.Random, limit: float) -> bool:
    """Wait for a front, or a runtime, that the engine has called to make, start or enter a container, and end it by
    SIGKILL, at a random moment of its short life. Returns whether there was one within `limit` seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        calls = [pid for pid in processes.pids() if _is_call(processes.command_line(pid), str(engine.folder))]
        if calls:
            time.sleep(chance.uniform(0, 0.02))
            processes.kill(chance.choice(calls))
            return True
    return False


def _is_call(command: str, folder: str) -> bool:
    program, *words = command.split(" ")
    name = os.path.basename(program)
    is_runtime = name == "runc" or name.startswith(("crishim-", "front"))
    return is_runtime and folder in command and not _VERBS.isdisjoint(words)
