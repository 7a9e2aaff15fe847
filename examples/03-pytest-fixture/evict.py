"""Stops and removes all pods of a Kubernetes namespace through CRI: the program that is to be tested."""

from __future__ import annotations

import sys

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient


def evict(endpoint: str, namespace: str) -> list[str]:
    """Returns the names of the pods that are gone."""
    gone = []
    with CRIClient(endpoint) as client:
        for sandbox in client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=10).items:
            if sandbox.metadata.namespace == namespace:
                client.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=60)
                client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=60)
                gone.append(sandbox.metadata.name)
    return gone


if __name__ == "__main__":
    print(*evict(sys.argv[1], sys.argv[2]), sep="\n")
