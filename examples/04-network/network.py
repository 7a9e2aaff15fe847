"""Two pods on the embedded network, or on a conflist's, run with crictl.

python examples/04-network/network.py [--cni PLUGINS] [--engine unix:///var/run/docker.sock] [--image REFERENCE]
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
SERVE = "mkdir -p /tmp/www; echo hello from web >/tmp/www/index.html; exec httpd -f -p 80 -h /tmp/www"


@contextmanager
def served(folder: Path, engine: str, plugins: str | None) -> Iterator[str]:
    """crishim in a process of its own; the path of its socket."""
    socket = folder / "crishim.sock"
    places = {
        "listen": f"unix://{socket}",
        "engine": engine,
        "state-dir": folder / "state",
        "run-dir": folder / "run",
        "netns-dir": folder / "netns",
        # Without plugins: two folders that are not there, as on a machine that has never seen CNI.
        "cni-conf-dir": HERE / "net.d" if plugins else folder / "no-cni",
        "cni-bin-dir": plugins or folder / "no-cni",
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "crishim", "serve", *(f"--{name}={place}" for name, place in places.items())]
    )
    try:
        while not socket.exists():
            if server.poll() is not None:
                raise SystemExit(f"crishim ended with exit status {server.returncode}")
            time.sleep(0.01)
        yield f"unix://{socket}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
        subprocess.run(["umount", "-l", str(folder / "netns")], check=False, stderr=subprocess.DEVNULL)


class Crictl:
    """crictl with this endpoint."""

    def __init__(self, tool: str, endpoint: str) -> None:
        self._command = [tool, f"--runtime-endpoint={endpoint}", f"--image-endpoint={endpoint}"]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def wait_ready(self) -> None:
        """Until engine and network are."""
        for _ in range(300):
            conditions = json.loads(self("info"))["status"]["conditions"]
            if all(condition["status"] for condition in conditions if condition["type"].endswith("Ready")):
                return
            time.sleep(0.1)
        raise SystemExit(f"not ready: {conditions}")


def run(crictl: Crictl, image: str, folder: Path) -> None:
    """Run both pods, let them talk, and remove them."""
    pods = {}
    for name, script in (("web", SERVE), ("visitor", "exec sleep 1000")):
        config = HERE / f"{name}.json"
        pods[name] = crictl("runp", str(config))
        container = folder / f"{name}-container.json"
        container.write_text(
            json.dumps({"metadata": {"name": name}, "image": {"image": image}, "command": ["sh", "-c", script]})
        )
        crictl("start", crictl("create", "--no-pull", pods[name], str(container), str(config)))
        ip = json.loads(crictl("inspectp", pods[name]))["status"]["network"]["ip"]
        print(f"pod {name} has the address {ip}", flush=True)
    web = json.loads(crictl("inspectp", pods["web"]))["status"]["network"]["ip"]
    visitor = crictl("ps", "-q", "--name", "visitor")
    # The server in the pod has just been started.
    fetch = f"until wget -qO- http://{web}/; do sleep 0.1; done"
    print(f"the visitor got: {crictl('exec', visitor, 'sh', '-c', fetch)}", flush=True)
    address = "http://127.0.0.1:18090/"
    if curl := shutil.which("curl"):
        page = subprocess.run([curl, "-sS", "-m", "10", address], stdout=subprocess.PIPE, text=True, check=True).stdout
    else:
        page = urllib.request.urlopen(address, timeout=10).read().decode()
    print(f"the host port answered: {page.strip()}", flush=True)
    for pod in pods.values():
        crictl("stopp", pod)
        crictl("rmp", pod)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cni", metavar="PLUGINS", help="folder of the reference plugins")
    parser.add_argument("--engine", default="unix:///var/run/docker.sock")
    parser.add_argument("--image", default="crishim.test/busybox:1")
    parser.add_argument("--crictl", default="crictl")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="crishim-net-"))
    try:
        with served(folder, chosen.engine, chosen.cni) as endpoint:
            crictl = Crictl(chosen.crictl, endpoint)
            crictl.wait_ready()
            run(crictl, chosen.image, folder)
    finally:
        if chosen.cni:
            # The reference plugin leaves its bridge.
            subprocess.run(["ip", "link", "delete", "pods0"], check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
