"""A pod from beginning to end: crishim is started, runs a pod with two containers, works in it, and takes it apart.

    python examples/01-pod/demo.py [--engine unix:///var/run/docker.sock] [--image REFERENCE]

Needs root and a Docker Engine that holds the image (any with a shell). Leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import os
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

import grpc
from client import Client
from streams import talk

from crishim.cri.v1 import runtime_pb2 as cri

POD = cri.PodSandboxConfig(
    metadata=cri.PodSandboxMetadata(name="demo", namespace="default", uid=f"demo-{os.getpid()}"),
    hostname="demo",
    labels={"app": "demo"},
    annotations={"example.com/purpose": "to be looked at"},
    dns_config=cri.DNSConfig(servers=["192.0.2.53"], searches=["demo.example"]),
    port_mappings=[cri.PortMapping(container_port=8080, host_port=18080)],
)


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def show(message: object) -> None:
    print("  " + str(message).rstrip().replace("\n", "\n  "), flush=True)


@contextmanager
def served(engine: str, folder: Path) -> Iterator[str]:
    """crishim as a process of its own, everything of it in one folder."""
    endpoint = f"unix://{folder}/crishim.sock"
    arguments = {
        "--listen": endpoint,
        "--engine": engine,
        "--state-dir": folder / "state",
        "--run-dir": folder / "run",
        "--netns-dir": folder / "netns",
        # Of crishim's own, whatever the machine has: it goes with the last pod.
        "--network": "embedded",
    }
    command = [sys.executable, "-m", "crishim", "serve", *(str(x) for pair in arguments.items() for x in pair)]
    server = subprocess.Popen(command)
    try:
        while not (folder / "crishim.sock").exists():
            if server.poll() is not None:
                raise SystemExit(f"crishim ended right after its start with exit status {server.returncode}")
            time.sleep(0.01)
        yield endpoint
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)
        # The folder of the pins was made a mount of its own, so that containers of network daemons would see them.
        subprocess.run(["umount", "-l", str(folder / "netns")], check=False, stderr=subprocess.DEVNULL)


def wait_ready(client: Client) -> None:
    """Wait until the engine has been read."""
    for _ in range(300):
        conditions = {c.type: c for c in client.Status().status.conditions}
        if conditions["RuntimeReady"].status:
            return
        time.sleep(0.1)
    raise SystemExit(f"the engine is not ready: {conditions['RuntimeReady'].message}")


def container(name: str, image: str, script: str) -> cri.ContainerConfig:
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=name),
        image=cri.ImageSpec(image=image),
        command=["sh", "-c", script],
        log_path=f"{name}.log",
    )


def run(client: Client, image: str, logs: Path) -> None:
    version = client.Version()
    say(f"crishim serves CRI {version.runtime_api_version} on {version.runtime_name} {version.runtime_version}")
    for condition in client.Status().status.conditions:
        show(f"{condition.type}: {condition.status}")

    say("A pod with two containers")
    config = cri.PodSandboxConfig()
    config.CopyFrom(POD)
    config.log_directory = str(logs)
    began = time.monotonic()
    pod = client.RunPodSandbox(config=config).pod_sandbox_id
    show(f"sandbox {pod[:13]} is READY after {(time.monotonic() - began) * 1000:.0f} ms")
    scripts = {
        "server": "mkdir -p /tmp/www; echo hello from the pod >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www",
        "client": "until wget -qO- http://127.0.0.1:8080/ 2>/dev/null; do sleep 0.2; done; hostname;"
        " cat /etc/resolv.conf; trap 'exit 0' TERM; while :; do sleep 0.1; done",
    }
    containers = {}
    for name, script in scripts.items():
        made = client.CreateContainer(
            pod_sandbox_id=pod, config=container(name, image, script), sandbox_config=config
        ).container_id
        client.StartContainer(container_id=made)
        containers[name] = made
        show(f"container {made[:13]} ({name}) was started")

    say("The containers share the pod's network: what the client printed, as the kubelet finds it in its log")
    show(wait_for_output(client, containers["client"]))
    rotate(client, containers["client"])

    reach(client, image, logs, pod)

    say("Processes beside it: one that is waited for, one that is talked to")
    answer = client.ExecSync(container_id=containers["server"], cmd=["sh", "-c", "ls -l /tmp/www; exit 3"], timeout=10)
    show(f"{answer.stdout.decode()}exit code {answer.exit_code}")
    shout = ["sh", "-c", "tr a-z A-Z; exit 5"]
    url = client.Exec(container_id=containers["server"], cmd=shout, stdin=True, stdout=True, stderr=True).url
    output, code = talk(url, b"said through a websocket\n")
    show(f"{output.decode()}exit code {code}")

    say("The lists")
    for item in client.ListPodSandbox().items:
        show(f"{item.id[:13]}  {cri.PodSandboxState.Name(item.state)}  {item.metadata.namespace}/{item.metadata.name}")
    for listed in client.ListContainers().containers:
        show(f"{listed.id[:13]}  {cri.ContainerState.Name(listed.state)}  {listed.metadata.name}  {listed.image.image}")

    say("The client container, inspected")
    status = client.ContainerStatus(container_id=containers["client"], verbose=True)
    show(f"pid {json.loads(status.info['info'])['pid']}, user {status.status.user.linux.uid}")
    show(status.status)

    say("Stopped and removed")
    for name, made in containers.items():
        client.StopContainer(container_id=made, timeout=2)
        ended = client.ContainerStatus(container_id=made).status
        show(f"{name}: {ended.reason}, exit code {ended.exit_code}")
    client.StopPodSandbox(pod_sandbox_id=pod)
    client.RemovePodSandbox(pod_sandbox_id=pod)
    listed = [*client.ListPodSandbox().items, *client.ListContainers().containers]  # there may be others' pods
    left = [item.id for item in listed if item.id in {pod, *containers.values()}]
    show(f"left behind: {len(left)} objects")
    if left:
        raise SystemExit("something was left behind")


def reach(client: Client, image: str, logs: Path, pod: str) -> None:
    """The pod's address from another pod, and its host port from this machine."""
    ip = client.PodSandboxStatus(pod_sandbox_id=pod).status.network.ip
    say(f"The pod has the address {ip}: another pod reaches it, and this machine by a host port")
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="other", namespace="default", uid=f"other-{os.getpid()}"),
        hostname="other",
        log_directory=str(logs / "other"),
    )
    other = client.RunPodSandbox(config=config).pod_sandbox_id
    visitor = client.CreateContainer(
        pod_sandbox_id=other, config=container("visitor", image, "sleep 1000"), sandbox_config=config
    ).container_id
    client.StartContainer(container_id=visitor)
    answer = client.ExecSync(container_id=visitor, cmd=["wget", "-qO-", f"http://{ip}:8080/"], timeout=10)
    show(f"the other pod got: {answer.stdout.decode()}{answer.stderr.decode()}")
    with urllib.request.urlopen("http://127.0.0.1:18080/", timeout=10) as page:
        show(f"this machine got: {page.read().decode()}")
    client.StopPodSandbox(pod_sandbox_id=other)
    client.RemovePodSandbox(pod_sandbox_id=other)


def wait_for_output(client: Client, container_id: str) -> str:
    """The container's log once it holds the search list, which is printed last."""
    path = Path(client.ContainerStatus(container_id=container_id).status.log_path)
    for _ in range(300):
        text = path.read_text() if path.exists() else ""
        if "demo.example" in text:
            return text
        time.sleep(0.1)
    raise SystemExit(f"the client container printed only: {text!r}")


def rotate(client: Client, container_id: str) -> None:
    """What a kubelet does with a log that has become large."""
    log = Path(client.ContainerStatus(container_id=container_id).status.log_path)
    old = log.rename(f"{log}.old")
    client.ReopenContainerLog(container_id=container_id)
    show(f"rotated: {old.name} has {old.stat().st_size} bytes, {log.name} has {log.stat().st_size}")


def crictl(endpoint: str) -> None:
    """The same node through the field's own tool, where it is installed."""
    if (tool := shutil.which("crictl")) is None:
        return
    for arguments in (["version"], ["info"], ["images"]):
        say(f"crictl {' '.join(arguments)}")
        subprocess.run([tool, "--runtime-endpoint", endpoint, "--image-endpoint", endpoint, *arguments], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", default="unix:///var/run/docker.sock")
    parser.add_argument("--image", default="crishim.test/busybox:1")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="crishim-demo-"))
    try:
        with served(chosen.engine, folder) as endpoint:
            client = Client(endpoint)
            wait_ready(client)
            run(client, chosen.image, folder / "logs")
            crictl(endpoint)
            client.close()
    except grpc.RpcError as error:
        raise SystemExit(f"{error.code().name}: {error.details()}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
