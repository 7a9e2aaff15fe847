"""A containerd of its own, in a test world: its folder, socket, pod network and runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from crishim.cri.v1 import runtime_pb2 as cri
from crishim.images.embedded import make_archive
from crishim.testing.client import CRIClient
from tests.bench.containerd.build import PROGRAMS
from tests.conformance import world
from tests.env import cgroups, front, linux, processes
from tests.env.cni import CniDirs

START_LIMIT = 30.0
STOP_LIMIT = 30.0
_CONFIG = """version = 3
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{network.bin}"]
    conf_dir = "{network.conf}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{runtime}"
"""
"""All else is what containerd does by default."""


@dataclass(frozen=True)
class Containerd:
    """One that runs: a client of its CRI, and its process."""

    client: CRIClient
    pid: int


@contextmanager
def serve(folder: Path) -> Iterator[Containerd]:
    """Run one until it is ready, with the sandbox image that crishim has.

    Raises ToolsMissingError when it is not built, RuntimeError with the end of its log when it does not become ready.
    """
    tools = PROGRAMS.folder()
    folder.mkdir(parents=True)
    with world.pod_network(folder / "cni") as network:
        image = make_archive(os.uname().machine)
        runtime = Path(shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "/usr/sbin/runc")
        (folder / "config.toml").write_text(_configuration(folder, network, runtime, image.tag))
        (folder / "pause.tar").write_bytes(image.tar)
        environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}:/usr/sbin:/sbin"}
        with (folder / "log").open("wb") as log:
            command = [str(tools / "containerd"), "--config", f"{folder}/config.toml"]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            with CRIClient(f"unix://{folder}/containerd.sock") as client:
                _wait_ready(process, client, folder)
                load = [str(tools / "ctr"), "--address", f"{folder}/containerd.sock", "--namespace", "k8s.io"]
                subprocess.run([*load, "images", "import", f"{folder}/pause.tar"], check=True, capture_output=True)
                yield Containerd(client, process.pid)
        finally:
            _end(process, folder)


def _configuration(folder: Path, network: CniDirs, runtime: Path, pause: str) -> str:
    fronted = front.build(runtime) if front.needed() else runtime
    return _CONFIG.format(folder=folder, network=network, runtime=fronted, pause=pause)


def _wait_ready(process: subprocess.Popen[bytes], client: CRIClient, folder: Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline and process.poll() is None:
        if (folder / "containerd.sock").exists():
            try:
                conditions = client.Status(cri.StatusRequest(), timeout=5).status.conditions
            except grpc.RpcError:
                conditions = []
            if {"RuntimeReady", "NetworkReady"} <= {condition.type for condition in conditions if condition.status}:
                return  # its own conditions, as one for deprecations, may be false
        time.sleep(0.05)
    words = (folder / "log").read_text(errors="replace").splitlines()[-5:]
    raise RuntimeError(f"containerd does not become ready: {' | '.join(words)}")


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """End it and what an interrupted measurement left: pods, mounts, cgroups."""
    process.terminate()
    try:
        process.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in processes.pids():
        if str(folder) in (words := processes.command_line(pid)) and "containerd-shim" in words:
            for kin in (pid, *processes.descendants(pid)):
                processes.kill(kin)
    for point, *_ in reversed(linux.mounts()):
        if Path(point).is_relative_to(folder):
            linux.umount(Path(point))
    for cgroup in cgroups.below_mounts():
        if cgroup.name == "k8s.io":
            cgroups.remove_tree(cgroup)
