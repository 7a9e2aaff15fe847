"""A crishim for the judges: the command, on a test engine and a CNI network, as an administrator starts it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance import world

START_LIMIT = 20.0
STOP_LIMIT = 60.0


@contextlib.contextmanager
def serve(engine_url: str, place: Path, flags: Sequence[str] = ()) -> Iterator[str]:
    """Run ``crishim serve`` and give its endpoint (``unix://``); ended by SIGTERM, its log is ``place/crishim.log``.

    ``place``: a folder with a short path, for its socket and state.  Raises RuntimeError with its last words when it
    does not come up, or does not end with status 0.
    """
    place.mkdir(parents=True, exist_ok=True)
    network = world.pod_network(place / "cni")
    address = place / "crishim.sock"
    log = place / "crishim.log"
    command = [sys.executable, "-m", "crishim", "serve", f"--listen=unix://{address}", f"--engine={engine_url}"]
    command += [f"--state-dir={place}/state", f"--run-dir={place}/run", "--network=cni"]
    command += [f"--cni-conf-dir={network.conf}", f"--cni-bin-dir={network.bin}", *flags]
    with log.open("wb") as words:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
    try:
        _wait_ready(process, address, log)
        yield f"unix://{address}"
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


def _wait_ready(process: subprocess.Popen[bytes], address: Path, log: Path) -> None:
    """Until the socket answers; the server binds it when it can serve."""
    deadline = time.monotonic() + START_LIMIT
    while True:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(address))
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"crishim does not serve: {_last_words(log)}")
        time.sleep(0.02)


def _last_words(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-5:]) or "(its log is empty)"
