"""Tests it against a CRI of its own: `cri_endpoint` comes with crishim and needs no import."""

from __future__ import annotations

import pytest
from evict import evict

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient
from crishim.testing.endpoint import CRIEndpoint


@pytest.fixture
def client(cri_endpoint: CRIEndpoint):
    with CRIClient(cri_endpoint.endpoint) as client:
        yield client


def run_pod(client: CRIClient, name: str, namespace: str) -> None:
    metadata = pb.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace=namespace)
    config = pb.PodSandboxConfig(metadata=metadata, hostname=name)
    client.RunPodSandbox(pb.RunPodSandboxRequest(config=config), timeout=60)


def test_only_the_namespaces_pods_are_evicted(client: CRIClient, cri_endpoint: CRIEndpoint) -> None:
    run_pod(client, "web", "shop")
    run_pod(client, "db", "shop")
    run_pod(client, "dns", "kube-system")
    assert sorted(evict(cri_endpoint.endpoint, "shop")) == ["db", "web"]
    left = client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=10).items
    assert [sandbox.metadata.name for sandbox in left] == ["dns"]


def test_an_empty_namespace_is_no_error(cri_endpoint: CRIEndpoint) -> None:
    assert evict(cri_endpoint.endpoint, "shop") == []
