"""A crishim for the judges: the command, on a test engine and a CNI network, as an administrator starts it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient
from tests.conformance import world
from tests.env.cni import CniDirs

START_LIMIT = 20.0
STOP_LIMIT = 60.0


@contextlib.contextmanager
def serve(engine_url: str, place: Path, flags: Sequence[str] = ()) -> Iterator[str]:
    """Run ``crishim serve`` until it is ready, and give its endpoint (``unix://``).

    At the end the pods that are left are removed through it, and it is ended by SIGTERM.  ``place``: a folder with a
    short path, for its socket and state; its log is ``crishim.log`` in there.  Raises RuntimeError with its last words
    when it does not become ready or does not end with status 0.
    """
    place.mkdir(parents=True, exist_ok=True)
    with world.pod_network(place / "cni") as network, _process(engine_url, place, network, flags) as endpoint:
        yield endpoint


@contextlib.contextmanager
def _process(engine_url: str, place: Path, network: CniDirs, flags: Sequence[str]) -> Iterator[str]:
    address = place / "crishim.sock"
    log = place / "crishim.log"
    (place / "config.toml").touch()  # not this machine's
    command = [sys.executable, "-m", "crishim", "serve", f"--config={place}/config.toml"]
    command += [f"--listen=unix://{address}", f"--engine={engine_url}"]
    command += [f"--state-dir={place}/state", f"--run-dir={place}/run", "--network=cni"]
    command += [f"--cni-conf-dir={network.conf}", f"--cni-bin-dir={network.bin}", *flags]
    # CRISHIM_... in the environment are settings, and an unknown one is an error: the tests' own are not passed on
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CRISHIM_")}
    with log.open("wb") as words:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment)
    try:
        with CRIClient(f"unix://{address}") as client:
            _wait_ready(process, client, log)
            yield f"unix://{address}"
            _remove_pods(client)
        if (status := process.poll()) is not None:
            raise RuntimeError(f"crishim ended by itself ({status}): {_last_words(log)}")
    finally:
        process.terminate()
        try:
            status = process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"crishim did not end within {STOP_LIMIT:.0f} s: {_last_words(log)}") from None
    if status != 0:
        raise RuntimeError(f"crishim ended with status {status}: {_last_words(log)}")


def _wait_ready(process: subprocess.Popen[bytes], client: CRIClient, log: Path) -> None:
    """Until Status says that runtime and network are ready."""
    deadline = time.monotonic() + START_LIMIT
    state = "it does not answer"
    while True:
        try:
            conditions = client.Status(pb.StatusRequest(), timeout=5).status.conditions
        except grpc.RpcError:
            pass
        else:
            if all(condition.status for condition in conditions):
                return
            state = " ".join(f"{c.type}={c.status} {c.reason} {c.message}" for c in conditions)
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"crishim is not ready ({state}): {_last_words(log)}")
        time.sleep(0.02)


def _remove_pods(client: CRIClient) -> None:
    """Remove what the judge left: a spec that fails half-way leaves its pod."""
    for sandbox in client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=60).items:
        client.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=60)
        client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=60)


def _last_words(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-5:]) or "(its log is empty)"
