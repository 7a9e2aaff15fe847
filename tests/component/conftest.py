"""Servers in processes of their own, on the simulated engine, and requests for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient
from crishim.testing.endpoint import CRIEndpoint, serve_endpoint

LIMIT = 30.0
"""Seconds for any call."""


@dataclass(frozen=True)
class World:
    """A server and a client of it."""

    server: CRIEndpoint
    client: CRIClient

    def run_pod(self, name: str = "web", *, attempt: int = 0, **config: object) -> str:
        """Run a sandbox; returns its id."""
        request = pb.RunPodSandboxRequest(config=make_pod(name, attempt=attempt, **config))
        return str(self.client.RunPodSandbox(request, timeout=LIMIT).pod_sandbox_id)

    def create(self, sandbox_id: str, name: str = "main", **config: object) -> str:
        """Create a container; returns its id."""
        request = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox_id, config=make_container(name, **config), sandbox_config=make_pod()
        )
        return str(self.client.CreateContainer(request, timeout=LIMIT).container_id)

    def start(self, container_id: str) -> None:
        self.client.StartContainer(pb.StartContainerRequest(container_id=container_id), timeout=LIMIT)

    def sandboxes(self, **wanted: object) -> list[str]:
        """Ids that ListPodSandbox tells for a filter."""
        request = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(**wanted))  # type: ignore[arg-type]
        return [item.id for item in self.client.ListPodSandbox(request, timeout=LIMIT).items]

    def containers(self, **wanted: object) -> list[str]:
        """Ids that ListContainers tells for a filter."""
        request = pb.ListContainersRequest(filter=pb.ContainerFilter(**wanted))  # type: ignore[arg-type]
        return [item.id for item in self.client.ListContainers(request, timeout=LIMIT).containers]

    def failure(self, rpc: str, request: object = b"") -> tuple[grpc.StatusCode, str]:
        """Code and text with which a call fails."""
        with pytest.raises(grpc.RpcError) as caught:
            getattr(self.client, rpc)(request, timeout=LIMIT)
        error = caught.value
        assert isinstance(error, grpc.Call)
        return error.code(), error.details() or ""


def make_pod(name: str = "web", *, attempt: int = 0, **config: object) -> pb.PodSandboxConfig:
    """The config of a pod as a kubelet would send it."""
    metadata = pb.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default", attempt=attempt)
    return pb.PodSandboxConfig(metadata=metadata, hostname=name, **config)  # type: ignore[arg-type]


def make_container(name: str = "main", **config: object) -> pb.ContainerConfig:
    """The config of a container that runs until it is stopped."""
    values: dict[str, object] = {
        "metadata": pb.ContainerMetadata(name=name),
        "image": pb.ImageSpec(image="busybox:latest"),
        "command": ["sleep", "infinity"],
    }
    return pb.ContainerConfig(**(values | config))  # type: ignore[arg-type]


@pytest.fixture
def world() -> Iterator[World]:
    """A fresh server."""
    with serve_endpoint() as server, CRIClient(server.endpoint) as client:
        yield World(server, client)


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    """A server for all tests of a module, which leave nothing behind."""
    with serve_endpoint() as server, CRIClient(server.endpoint) as client:
        yield World(server, client)
        listed = (client.ListPodSandbox(b"", timeout=LIMIT).items, client.ListContainers(b"", timeout=LIMIT).containers)
        assert [list(items) for items in listed] == [[], []]
        log = server.log_path.read_text()
        assert "Traceback" not in log, log
