"""Memory of all processes of crishim together."""

from __future__ import annotations

import time
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import container, live_through, pod


def idle(served: Served) -> Figure:
    """Right after the start, nothing asked yet but its status."""
    return summarize("memory, idle", [served.rss()], unit="MB", must=85.0, note="RSS")


def with_a_log(served: Served, image: str, folder: Path) -> Figure:
    """A pod runs whose container has printed something: the writer of logs is a process of its own."""
    config = pod(810_000)
    config.log_directory = str(folder)
    sandbox = served.client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
    wanted = container(image)
    wanted.command[:] = ["sh", "-c", "echo word; exec sleep 1000"]
    wanted.log_path = "main.log"
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)
    made = served.client.CreateContainer(request).container_id
    served.client.StartContainer(cri.StartContainerRequest(container_id=made))
    while not (folder / "main.log").stat().st_size:
        time.sleep(0.01)
    used, own = served.rss(), served.rss(children=False)
    served.client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    note = f"RSS of server and writer: {own:.1f} and {used - own:.1f} MB"
    return summarize("memory, idle, with a pod whose log is written", [used], unit="MB", must=85.0, note=note)


def growth(served: Served, image: str, pods: int) -> Figure:
    """From half of the pods to all of them, each created and removed."""
    for number in range(pods // 2):
        live_through(served, image, number)
    before = served.rss()
    for number in range(pods // 2, pods):
        live_through(served, image, number)
    after = served.rss()
    note = f"RSS {before:.1f} to {after:.1f} MB, pods {pods // 2} to {pods}"
    return summarize("memory, growth", [after - before], unit="MB", must=1.0, note=note)
