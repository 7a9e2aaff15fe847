"""A guest turned into a node as README.md says it: crishim from its wheel, in a virtual environment, as a service."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient
from tests.env import images
from tests.env.http_api import EngineApi
from tests.vm import wheels
from tests.vm.guest import Guest, wait_for
from tests.vm.image import HOME, WHEELS

SOURCES = "/root/crishim"
ENDPOINT = "unix:///run/crishim/crishim.sock"
IMAGE = "registry.k8s.io/e2e-test-images/busybox:1.29-2"
"""The tests' busybox under the name by which critest asks for it; under its own the demo will bring the guest's."""
CALL_LIMIT = 150.0
"""Seconds for a call; the emulated engine needs five for a start."""
_INSTALL_LIMIT = 600.0
_UNHURRIED = "[Service]\nTimeoutStartSec=600\nTimeoutStopSec=600\n"
"""A drop-in for the unit: its limits are for machines of ordinary speed."""
_RESTARTED_OFTEN = "[Unit]\nStartLimitIntervalSec=0\n"
"""A drop-in for the engine's unit, which systemd else refuses to start a fourth time within a minute."""
_CONFLIST = {
    "cniVersion": "1.0.0",
    "name": "guest",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "guest0",
            "isGateway": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.51.100.0/24"}]]},  # TEST-NET-2 (RFC 5737)
        }
    ],
}
_serial = itertools.count()


class Node:
    """crishim and its engine in the guest, with their sockets led to this side."""

    def __init__(self, guest: Guest, place: Path) -> None:
        """``place``: a folder with a short path for the sockets."""
        self.guest = guest
        self._place = place
        guest.forward("/run/crishim/crishim.sock", place / "crishim.sock")
        guest.forward("/run/docker.sock", place / "docker.sock")
        self.engine = EngineApi(place / "docker.sock", timeout=CALL_LIMIT)
        self.client = CRIClient(f"unix://{place}/crishim.sock")

    def reconnect(self) -> None:
        """A fresh connection to crishim: a failed one is only tried again after a while (gRPC's backoff)."""
        self.client.close()
        self.client = CRIClient(f"unix://{self._place}/crishim.sock")

    def call(self, rpc: str, **fields: Any) -> Any:
        """One call of CRI; ``fields`` are the request's.  Raises grpc.RpcError."""
        request = getattr(pb, f"{rpc}Request")(**fields)
        return getattr(self.client, rpc)(request, timeout=CALL_LIMIT)

    def condition(self, kind: str) -> pb.RuntimeCondition:
        """A condition of the node; false with reason ``unreachable`` while crishim does not answer."""
        try:
            conditions: list[pb.RuntimeCondition] = list(self.call("Status").status.conditions)
        except grpc.RpcError as error:
            self.reconnect()
            return pb.RuntimeCondition(type=kind, reason="unreachable", message=str(error))
        return next(condition for condition in conditions if condition.type == kind)

    def wait_ready(self) -> None:
        """Until the engine can be used."""
        wait_for(lambda: self.condition("RuntimeReady"), lambda condition: condition.status)

    def info(self) -> dict[str, Any]:
        """What Status tells beyond the interface."""
        return {key: json.loads(text) for key, text in self.call("Status", verbose=True).info.items()}

    @contextlib.contextmanager
    def pod(
        self,
        *,
        linux: pb.LinuxPodSandboxConfig | None = None,
        runtime_handler: str = "",
        port_mappings: Sequence[pb.PortMapping] = (),
    ) -> Iterator[Pod]:
        """Run a pod, and remove it whatever became of it."""
        number = next(_serial)
        metadata = pb.PodSandboxMetadata(name=f"pod-{number}", namespace="default", uid=f"uid-{number}")
        config = pb.PodSandboxConfig(
            metadata=metadata,
            hostname="pod",
            log_directory=f"/var/log/pods/{number}",
            linux=linux,
            port_mappings=port_mappings,
        )
        answer = self.call("RunPodSandbox", config=config, runtime_handler=runtime_handler)
        try:
            yield Pod(self, answer.pod_sandbox_id, config)
        finally:
            self.call("StopPodSandbox", pod_sandbox_id=answer.pod_sandbox_id)
            self.call("RemovePodSandbox", pod_sandbox_id=answer.pod_sandbox_id)

    def pid(self, container_id: str) -> int:
        """The process of a container or sandbox, as the engine tells it."""
        pid = self.engine.call("GET", f"/containers/{container_id}/json")["State"]["Pid"]
        assert pid, f"{container_id[:13]} does not run"
        return int(pid)

    def state(self, container_id: str) -> str:
        """The name of a container's state in the list."""
        chosen = pb.ContainerFilter(id=container_id)
        (listed,) = self.call("ListContainers", filter=chosen).containers
        return pb.ContainerState.Name(listed.state)

    def sandbox_state(self, sandbox_id: str) -> str:
        """The name of a sandbox's state in the list."""
        (listed,) = self.call("ListPodSandbox", filter=pb.PodSandboxFilter(id=sandbox_id)).items
        return pb.PodSandboxState.Name(listed.state)


@dataclass(frozen=True)
class Pod:
    """A pod of a test's."""

    node: Node
    id: str
    config: pb.PodSandboxConfig

    def start(self, script: str = "exec sleep 100000", **linux: Any) -> str:
        """Start a container that runs a shell script and return its id; ``linux`` are its ``linux`` fields."""
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=f"container-{next(_serial)}"),
            image=pb.ImageSpec(image=IMAGE),
            command=["sh", "-c", script],
            linux=pb.LinuxContainerConfig(**linux),
        )
        fields = {"pod_sandbox_id": self.id, "config": config, "sandbox_config": self.config}
        container_id: str = self.node.call("CreateContainer", **fields).container_id
        self.node.call("StartContainer", container_id=container_id)
        return container_id


def install(guest: Guest, python: str, place: Path) -> None:
    """Make a node of the guest.  ``place``: a folder for what is built.  Raises WheelsError, GuestError."""
    sources = place / "sources"
    wheels.copy_sources(sources)
    wheel = wheels.build(python, sources, place / "built")
    shutil.rmtree(sources / "build", ignore_errors=True)
    for left in sources.glob("*.egg-info"):
        shutil.rmtree(left)
    guest.put(sources, SOURCES)
    guest.put(wheel, f"/root/{wheel.name}")
    guest.write("/etc/cni/net.d/10-guest.conflist", json.dumps(_CONFLIST))
    guest.write("/etc/systemd/system/crishim.service.d/emulated.conf", _UNHURRIED)
    guest.write("/etc/systemd/system/docker.service.d/tests.conf", _RESTARTED_OFTEN)
    guest.run(f"{HOME}/bin/pip install -q --no-index --find-links={WHEELS} /root/{wheel.name}", limit=_INSTALL_LIMIT)
    guest.run(f"{HOME}/bin/crishim install-service && systemctl daemon-reload && systemctl enable --now crishim")


def load_image(node: Node) -> None:
    """Put the containers' image into the node's engine."""
    images.busybox().load(node.engine, IMAGE)
