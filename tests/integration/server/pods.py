"""Requests as a kubelet sends them, and the calls of a pod's life in short."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env.http_api import EngineApi
from tests.env.images import BUSYBOX_REF
from tests.integration.server.serving import CALL, CrishimServer
from tests.integration.server.waiting import until

READY, NOTREADY = pb.SANDBOX_READY, pb.SANDBOX_NOTREADY
CREATED, RUNNING, EXITED = pb.CONTAINER_CREATED, pb.CONTAINER_RUNNING, pb.CONTAINER_EXITED
SLEEP = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done")
"""A command that runs until it is asked to end."""
_numbers = itertools.count(1)


def make_pod(server: CrishimServer, name: str = "", *, attempt: int = 0, **changes: Any) -> pb.PodSandboxConfig:
    """The config of a pod; every name is another pod, and none is a new one."""
    name = name or f"pod-{next(_numbers)}"
    config: dict[str, Any] = {
        "metadata": pb.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default", attempt=attempt),
        "hostname": name,
        "log_directory": str(server.logs / name),
        "labels": {"app": name},
        "linux": pb.LinuxPodSandboxConfig(),
    }
    return pb.PodSandboxConfig(**(config | changes))


def make_container(name: str = "main", *, attempt: int = 0, **changes: Any) -> pb.ContainerConfig:
    """The config of a container that runs until it is stopped."""
    config: dict[str, Any] = {
        "metadata": pb.ContainerMetadata(name=name, attempt=attempt),
        "image": pb.ImageSpec(image=BUSYBOX_REF),
        "command": SLEEP,
        "log_path": f"{name}_{attempt}.log",
        "linux": pb.LinuxContainerConfig(),
    }
    return pb.ContainerConfig(**(config | changes))


def linux(**context: Any) -> pb.LinuxContainerConfig:
    """`config.linux` with a security context; `resources` is not a part of that."""
    resources = context.pop("resources", None)
    return pb.LinuxContainerConfig(security_context=pb.LinuxContainerSecurityContext(**context), resources=resources)


def pod_linux(**context: Any) -> pb.LinuxPodSandboxConfig:
    """A pod's `config.linux` with a security context; `sysctls` and `cgroup_parent` are not a part of that."""
    rest = {name: context.pop(name) for name in ("sysctls", "cgroup_parent") if name in context}
    return pb.LinuxPodSandboxConfig(security_context=pb.LinuxSandboxSecurityContext(**context), **rest)


class Pod:
    """A pod that runs, and what its containers are and say."""

    def __init__(self, server: CrishimServer, config: pb.PodSandboxConfig | None = None, handler: str = "") -> None:
        """RunPodSandbox."""
        self.server = server
        self.config = config or make_pod(server)
        request = pb.RunPodSandboxRequest(config=self.config, runtime_handler=handler)
        self.id = str(server.client.RunPodSandbox(request, timeout=CALL).pod_sandbox_id)

    def create(self, config: pb.ContainerConfig | None = None) -> str:
        """CreateContainer."""
        request = pb.CreateContainerRequest(
            pod_sandbox_id=self.id, config=config or make_container(), sandbox_config=self.config
        )
        return str(self.server.client.CreateContainer(request, timeout=CALL).container_id)

    def start(self, config: pb.ContainerConfig | None = None) -> str:
        """CreateContainer and StartContainer."""
        container_id = self.create(config)
        self.server.client.StartContainer(pb.StartContainerRequest(container_id=container_id), timeout=CALL)
        return container_id

    def say(self, script: str, **changes: Any) -> str:
        """What a shell script prints in a new container of this pod; it must succeed."""
        name = changes.pop("name", f"script-{next(_numbers)}")
        container_id = self.start(make_container(name, command=["sh", "-c", script], **changes))
        status = self.ended(container_id)
        output = read_log(Path(status.log_path))
        assert status.exit_code == 0, f"exit code {status.exit_code}: {output}"
        self.server.client.RemoveContainer(pb.RemoveContainerRequest(container_id=container_id), timeout=CALL)
        return output

    def ended(self, container_id: str) -> pb.ContainerStatus:
        """The status of a container once it has ended."""

        def look() -> pb.ContainerStatus | None:
            status = container_status(self.server, container_id)
            return status if status.state == EXITED else None

        return until(look, f"the end of {container_id[:13]}") or pb.ContainerStatus()

    def stop(self) -> None:
        """StopPodSandbox."""
        self.server.client.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=self.id), timeout=CALL)

    def remove(self) -> None:
        """StopPodSandbox and RemovePodSandbox."""
        self.stop()
        self.server.client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=self.id), timeout=CALL)

    def status(self) -> pb.PodSandboxStatus:
        """PodSandboxStatus."""
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=self.id)
        status: pb.PodSandboxStatus = self.server.client.PodSandboxStatus(request, timeout=CALL).status
        return status


def container_status(server: CrishimServer, container_id: str) -> pb.ContainerStatus:
    """ContainerStatus."""
    request = pb.ContainerStatusRequest(container_id=container_id)
    status: pb.ContainerStatus = server.client.ContainerStatus(request, timeout=CALL).status
    return status


def listed_states(server: CrishimServer) -> dict[str, int]:
    """State of every sandbox and container in the lists, by id."""
    sandboxes = server.client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=CALL).items
    containers = server.client.ListContainers(pb.ListContainersRequest(), timeout=CALL).containers
    return {item.id: item.state for item in (*sandboxes, *containers)}


def read_log(path: Path) -> str:
    """What a container has printed, in order, standard output and error mixed."""
    said = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        _time, _stream, tag, text = line.split(b" ", 3)
        said.append(text + (b"\n" if tag == b"F" else b""))
    return b"".join(said).decode()


def inspect(api: EngineApi, container_id: str) -> Mapping[str, Any]:
    """The engine's own view of a container."""
    shown: Mapping[str, Any] = api.call("GET", f"/containers/{container_id}/json")
    return shown


def restart_behind(server: CrishimServer, api: EngineApi, container_id: str) -> None:
    """Have the engine restart a container, as people do, and wait until the server has noticed."""
    before = container_status(server, container_id).started_at
    api.call("POST", f"/containers/{container_id}/restart", {"t": "0"})

    def noticed() -> bool:
        status = container_status(server, container_id)
        return status.state == RUNNING and status.started_at != before

    until(noticed, f"the restart of {container_id[:13]}")


def pid_of(api: EngineApi, container_id: str) -> int:
    """The first process of a container, as this world numbers it."""
    return int(inspect(api, container_id)["State"]["Pid"])
