"""Run the first example on a Docker Engine: the machine's if one answers and runs no pods, else one of a test world's.

``python -m tests.env.demo``, as root.  The example's image is put into the engine and taken out again.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.env import front, images, machine, world
from tests.env.cache import ROOT
from tests.env.engine import TestEngine
from tests.env.http_api import EngineApi, EngineApiError

EXAMPLE = ROOT / "examples" / "01-pod" / "demo.py"

POD_LABEL = "io.kubernetes.docker.type"
MARK = "DEMO_OF_CRISHIM"
"""Environment variable by which the demo's processes are known outside a test world."""


def machines_engine() -> Path | None:
    """The socket of the engine that runs on this machine (DOCKER_HOST's if that is a unix socket), if it answers."""
    host = os.environ.get("DOCKER_HOST", "")
    socket = Path(host.removeprefix("unix://") if host.startswith("unix://") else "/var/run/docker.sock")
    try:
        EngineApi(socket, timeout=5).call("GET", "/_ping")
    except (OSError, EngineApiError):
        return None
    return socket


def has_pods(socket: Path) -> bool:
    """Whether a kubelet's containers are on an engine, by the label that all shims for Docker set.

    The example's crishim would take them over, and write their logs.
    """
    query = {"all": "1", "filters": json.dumps({"label": [POD_LABEL]})}
    return bool(EngineApi(socket).call("GET", "/containers/json", query))


def run_example(socket: Path, arguments: Sequence[str]) -> int:
    """Run the example on the engine behind ``socket``; leaves the engine's images as they were."""
    api = EngineApi(socket)
    before = _images(api)
    images.busybox().load(api, images.BUSYBOX_REF)
    try:
        command = [sys.executable, str(EXAMPLE), "--engine", f"unix://{socket}", *arguments]
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    finally:
        _put_back(api, before)


def _images(api: EngineApi) -> dict[str, set[str]]:
    """The engine's images: id to names."""
    nameless = "<none>:<none>"  # what engines before 25 say of an image without a name
    return {str(image["Id"]): {*(image["RepoTags"] or ())} - {nameless} for image in api.call("GET", "/images/json")}


def _put_back(api: EngineApi, before: dict[str, set[str]]) -> None:
    """Give names back to the images that had them, and take away what is new: the example's, and crishim's own."""
    after = _images(api)
    had = {name for names in before.values() for name in names}
    for image, names in before.items():
        for name in names - after.get(image, set()):
            repository, _, tag = name.rpartition(":")
            api.call("POST", f"/images/{image}/tag", {"repo": repository, "tag": tag})
        # The user had the same image by another name; without one it would go with this.
        for name in after.get(image, set()) - had if names else ():
            api.call("DELETE", f"/images/{name}", {"noprune": "true"})
    for image in after.keys() - before.keys():
        with contextlib.suppress(EngineApiError):  # somebody uses it by now
            api.call("DELETE", f"/images/{image}", {"force": "true"})


def main(arguments: Sequence[str]) -> int:
    """Entry point.  Exit status: the example's, or 1 with one line that says what is missing."""
    inside = world.folder()
    socket = machines_engine() if inside is None else None
    if socket is not None and has_pods(socket):
        print(f"demo: the engine at {socket} runs a kubelet's pods, which are left alone", flush=True)
        socket = None
    if socket is not None:
        print(f"demo: on the engine at {socket}", flush=True)
        os.environ[MARK] = str(os.getpid())
        return machine.judged(f"{MARK}={os.getpid()}", lambda: run_example(socket, arguments))
    if inside is None:
        subprocess.run([ROOT / "tests/env/bootstrap.sh", "engine"], check=True)
        return world.main(["--", sys.executable, "-m", "tests.env.demo", *arguments])
    print("demo: starting an engine in a test world", flush=True)
    if front.needed():
        print(f"demo: with a runtime front, because {front.REASON}", flush=True)
    with TestEngine(inside / "tmp" / "engine") as engine:
        return run_example(engine.socket, arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(1)
