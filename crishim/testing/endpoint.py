"""A crishim in a process of its own, for one test: started, awaited, and taken away with all that it made.

`serve_endpoint` is what the pytest fixture `cri_endpoint` is made of; it can be used without pytest.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crishim.network import mounts

SIMULATED = "simulated:"
"""The engine that ends with the server's process, and its pods with it."""
READY_LIMIT = 30.0
"""Seconds from start to ready: a second on a quiet machine."""
STOP_LIMIT = 60.0
"""Seconds from SIGTERM to the end, above the server's own limit for draining."""
CALL_LIMIT = 60.0


@dataclass
class CRIEndpoint:
    """A running server."""

    endpoint: str
    """`unix://` and the path of the socket, as `crictl --runtime-endpoint` takes it."""
    state_dir: Path
    """Its `--state-dir`."""
    log_path: Path
    """What it has logged."""
    process: subprocess.Popen[bytes]
    _found: frozenset[str] = field(default=frozenset(), repr=False)
    """Sandboxes that were there before: with a real engine they are somebody else's."""

    @property
    def pid(self) -> int:
        """The server's process."""
        return self.process.pid

    def stop(self) -> int:
        """Ask it to end and wait; returns its exit status. Pods stay as they are. May come twice.

        Raises subprocess.TimeoutExpired after killing one that does not end.
        """
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        return self.process.returncode

    def kill(self) -> None:
        """End it as `kill -9` does; returns when it has ended. Pods stay as they are."""
        self.process.kill()
        self.process.wait()

    def remove_pods(self) -> None:
        """Stop and remove every pod sandbox that was made since the start. Raises grpc.RpcError."""
        from crishim.cri.v1 import runtime_pb2 as pb
        from crishim.testing.client import CRIClient

        with CRIClient(self.endpoint) as client:
            for sandbox in client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=CALL_LIMIT).items:
                if sandbox.id not in self._found:
                    client.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=CALL_LIMIT)
                    client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=CALL_LIMIT)


@contextmanager
def serve_endpoint(
    engine: str = SIMULATED, flags: Sequence[str] = (), *, folder: Path | None = None, wait_engine: bool = True
) -> Iterator[CRIEndpoint]:
    """Serve inside the block. `flags` are more of `crishim serve`, and win over those set here.

    `folder` holds socket, state and log, and is left there; None: a temporary one, removed at the end. Pods have no
    network unless a flag gives them one. `wait_engine`: the block begins when the engine has been read, too,
    and ends with the removal of the pods that were made in it. Raises RuntimeError with the end of the log if the
    server does not start.
    """
    # Short, because a unix socket's path may have 107 bytes only, and folders of tests are long.
    place = folder or Path(tempfile.mkdtemp(prefix="crishim-"))
    try:
        served = _start(engine, flags, place)
        try:
            if wait_engine:
                served._found = _wait_engine(served)
            yield served
            if wait_engine and served.process.poll() is not None and engine != SIMULATED:
                # Ended by the test, and the pods live on in the engine.
                served.process = _start(engine, flags, place).process
                _wait_engine(served)
            if wait_engine and served.process.poll() is None:
                served.remove_pods()
        finally:
            served.stop()
    finally:
        # The folder of pins is a mount of its own where it does not lie on a shared one.
        for point in _mounts_in(place):
            mounts.detach(point)
        if folder is None:
            shutil.rmtree(place)


def _start(engine: str, flags: Sequence[str], place: Path) -> CRIEndpoint:
    place.mkdir(parents=True, exist_ok=True)
    endpoint = f"unix://{place}/crishim.sock"
    command = [sys.executable, "-m", "crishim", "serve", "--listen", endpoint, "--engine", engine, "--network", "none"]
    for name in ("state", "run", "netns"):
        command += [f"--{name}-dir", str(place / name)]
    log_path = place / "log"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
        log_path.open("ab") as log,
    ):
        notify = place / "notify"
        notify.unlink(missing_ok=True)
        notified.bind(os.fspath(notify))
        # Settings of the caller's environment are not meant for this server.
        environ = {k: v for k, v in os.environ.items() if not k.startswith("CRISHIM_")} | {"NOTIFY_SOCKET": str(notify)}
        process = subprocess.Popen([*command, *flags], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environ)
        served = CRIEndpoint(endpoint, place / "state", log_path, process)
        try:
            _wait_ready(process, notified, log_path)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            notify.unlink()
    return served


def _wait_ready(process: subprocess.Popen[bytes], notified: socket.socket, log_path: Path) -> None:
    """Return when the server has said READY=1 (sd_notify(3)); its end is noticed at once."""
    end = time.monotonic() + READY_LIMIT
    pidfd = os.pidfd_open(process.pid)
    try:
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([notified.fileno(), pidfd], [], [], left)
            if notified.fileno() in ready and b"READY=1" in notified.recv(4096):
                return
            if pidfd in ready:
                break
    finally:
        os.close(pidfd)
    state = f"ended with status {process.wait()}" if process.poll() is not None else "is not ready"
    raise RuntimeError(f"crishim {state} after {READY_LIMIT:g} s at most; its log ends:\n{_tail(log_path)}")


def _mounts_in(place: Path) -> list[str]:
    """Mount points below a folder, the last mounted first."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    # Field 5 is the mount point, with blanks and the like as octal escapes (proc(5)).
    points = [line.split(b" ")[4].decode("unicode_escape").encode("latin-1").decode() for line in lines]
    return [point for point in reversed(points) if Path(point).is_relative_to(place)]


def _tail(log_path: Path) -> str:
    return "\n".join(log_path.read_text("utf-8", "replace").splitlines()[-20:])


def _wait_engine(served: CRIEndpoint) -> frozenset[str]:
    """Wait until the engine was read; returns the sandboxes that are there already."""
    import grpc

    from crishim.cri.v1 import runtime_pb2 as pb
    from crishim.testing.client import CRIClient

    end = time.monotonic() + READY_LIMIT
    with CRIClient(served.endpoint) as client:
        while True:
            try:
                listed = client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=CALL_LIMIT)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                    raise RuntimeError(f"{error.details()}; the log ends:\n{_tail(served.log_path)}") from error
                time.sleep(0.02)
            else:
                return frozenset(sandbox.id for sandbox in listed.items)
