"""A crishim of the test's own, in a process of its own: started, stopped, killed, and looked at from outside."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient
from tests.env import linux, processes
from tests.env.cache import ROOT
from tests.env.cni import CniDirs
from tests.integration.server.waiting import until

START_LIMIT = 30.0
STOP_LIMIT = 60.0
CALL = 60.0
"""Seconds for a call that is not meant to fail: several times what a busy machine needs."""


@dataclass
class CrishimServer:
    """One configuration of the server, which may have several lives."""

    engine_url: str
    folder: Path
    """Holds socket, state, pins, logs: short, for the socket in it."""
    cni: CniDirs | None = None
    """None: `--network none`."""
    embedded: bool = False
    """A machine without any CNI folder instead, and `--network auto`."""
    flags: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None
    lives: int = 0
    _client: CRIClient | None = field(default=None, repr=False)

    # --- places

    @property
    def socket(self) -> Path:
        """The socket on which it serves."""
        return self.folder / "crishim.sock"

    @property
    def endpoint(self) -> str:
        """What kubelet and crictl are given."""
        return f"unix://{self.socket}"

    @property
    def state(self) -> Path:
        """Its `--state-dir`."""
        return self.folder / "state"

    @property
    def pins(self) -> Path:
        """Its `--netns-dir`."""
        return self.folder / "netns"

    @property
    def desk(self) -> Path:
        """Where runtime fronts ask it (``TestEngine.front_asks``)."""
        return self.folder / "run" / "front.sock"

    @property
    def logs(self) -> Path:
        """Where pods' log directories lie."""
        return self.folder / "logs"

    @property
    def log(self) -> Path:
        """What it has said, in all its lives."""
        return self.folder / "crishim.log"

    # --- life

    def command(self, *more: str) -> list[str]:
        """The command line, with `more` flags."""
        launcher = Path(__file__).with_name("launch.py")
        command = [sys.executable, str(launcher), str(self.folder / "tasks"), "serve"]
        command += [f"--config={self.folder}/config.toml", f"--listen={self.endpoint}", f"--engine={self.engine_url}"]
        command += [f"--state-dir={self.state}", f"--run-dir={self.folder}/run", f"--netns-dir={self.pins}"]
        if self.embedded:
            nowhere = self.folder / "no-cni"
            command += [f"--cni-conf-dir={nowhere}", f"--cni-bin-dir={nowhere}"]
        elif self.cni is None:
            command.append("--network=none")
        else:
            command += ["--network=cni", f"--cni-conf-dir={self.cni.conf}", f"--cni-bin-dir={self.cni.bin}"]
        return [*command, *self.flags, *more]

    def launch(self, *more: str) -> subprocess.Popen[bytes]:
        """Start a process and wait for nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.toml").touch()  # not this machine's
        environ = {name: value for name, value in os.environ.items() if not name.startswith("CRISHIM_")}
        with self.log.open("ab") as log:
            log.write(f"--- life {self.lives}\n".encode())
            log.flush()
            self.lives += 1
            return subprocess.Popen(
                self.command(*more), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, cwd=ROOT
            )

    def start(self, *, engine: bool = True) -> None:
        """Start it and wait until it serves, and, with `engine`, until it has read the engine.

        Raises RuntimeError with its last words when it does not.
        """
        self.process = self.launch()
        end = time.monotonic() + START_LIMIT
        while True:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"crishim does not serve: {self.last_words()}")
            if self._serves():
                break
            time.sleep(0.01)
        if engine:
            self.wait_ready()

    def _serves(self) -> bool:
        if not self.socket.exists():
            return False
        with CRIClient(self.endpoint) as client:  # of its own: a channel that was refused waits before it tries again
            try:
                client.Version(pb.VersionRequest(), timeout=CALL)
            except grpc.RpcError as error:
                if code(error) is not grpc.StatusCode.UNAVAILABLE:
                    raise
                return False
        return True

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        assert self.process is not None
        self.close_client()
        self.process.terminate()
        try:
            return self.process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"crishim did not end within {STOP_LIMIT:g} s: {self.last_words()}") from None

    def kill9(self) -> None:
        """SIGKILL. CNI plugins that it runs live on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.close_client()

    def restart(self) -> None:
        """Stop and start. Raises AssertionError unless it ends with status 0."""
        status = self.stop()
        assert status == 0, f"exit status {status}: {self.last_words()}"
        self.start()

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The process."""
        assert self.process is not None
        return self.process.pid

    def last_words(self) -> str:
        """The end of its log."""
        return " | ".join(self.log.read_text(errors="replace").splitlines()[-8:]) or "(its log is empty)"

    def remove_folder(self) -> None:
        """End it, unmount what is mounted in its folder, and remove that."""
        if self.running:
            self.kill9()
        self.close_client()
        for point, *_ in reversed(linux.mounts()):
            if Path(point).is_relative_to(self.folder):
                linux.umount(point)
        shutil.rmtree(self.folder)

    # --- calls

    @property
    def client(self) -> CRIClient:
        """A client of this life."""
        if self._client is None:
            self._client = CRIClient(self.endpoint)
        return self._client

    def close_client(self) -> None:
        """Forget the client; the next call makes another."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def condition(self, name: str = "RuntimeReady") -> pb.RuntimeCondition:
        """A condition of Status."""
        conditions = self.client.Status(pb.StatusRequest(), timeout=CALL).status.conditions
        found: pb.RuntimeCondition = next(condition for condition in conditions if condition.type == name)
        return found

    def wait_ready(self, limit: float = 30.0) -> None:
        """Wait until Status says RuntimeReady."""
        until(lambda: self.condition().status, f"RuntimeReady: {self.last_words()}", limit)

    def remove_all(self) -> None:
        """Stop and remove every sandbox that is listed."""
        for sandbox in self.client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=CALL).items:
            self.client.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=CALL)
            self.client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=CALL)

    # --- from outside

    def descriptors(self) -> Counter[str]:
        """What its open descriptors are of."""
        return Counter(target.partition(":[")[0] for target in processes.opened(self.pid))

    def threads(self) -> int:
        """How many threads it has."""
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def resident(self) -> int:
        """Bytes of memory it occupies."""
        words = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(words[1]) * os.sysconf("SC_PAGE_SIZE")

    def children(self) -> list[str]:
        """Its processes below it but the writer of logs, zombies named so."""
        return [
            "(zombie)" if processes.is_zombie(pid) else processes.command_line(pid)
            for pid in processes.descendants(self.pid)
            if pid != self.log_writer
        ]

    @property
    def log_writer(self) -> int:
        """The process that writes container logs, 0 while there is none."""
        for pid in processes.descendants(self.pid):
            if not processes.is_zombie(pid) and "crishim.logs.worker" in processes.command_line(pid):
                return pid
        return 0

    def open_logs(self) -> list[str]:
        """Files of containers that the writer of logs holds open: logs and the engine's own."""
        if not (pid := self.log_writer):
            return []
        return [
            target for target in processes.opened(pid) if target.startswith(str(self.logs)) or "-json.log" in target
        ]

    def tasks(self) -> Counter[str]:
        """Names of its coroutines' tasks, those that gRPC numbers without their numbers."""
        report = self.folder / "tasks"
        report.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR2)
        until(report.exists, "a report of the tasks")
        return Counter("Task" if name.startswith("Task-") else name for name in report.read_text().splitlines())


def code(error: Any) -> grpc.StatusCode:
    """The status code of a call that failed (a `grpc.RpcError` of either kind of client)."""
    found: grpc.StatusCode = error.code()
    return found


def text(error: Any) -> str:
    """The words of a call that failed."""
    return str(error.details())
