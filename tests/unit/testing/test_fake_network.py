"""The fake pod network keeps the contract of pod networks, and tells on who breaks CNI's rules."""

from __future__ import annotations

import dataclasses

import pytest

from crishim.engine.simulated import Fail
from crishim.errors import NetworkFailed, NetworkNotReady
from crishim.network.api import PodAttachment
from crishim.testing.fake_network import FakePodNetwork
from crishim.testing.network_contract import CHECKS, Check, Place


def make_pod(number: int) -> PodAttachment:
    return PodAttachment(
        sandbox_id=f"{number:064x}",
        netns_path=f"/netns/{number}",
        name=f"pod-{number}",
        namespace="n",
        uid=f"u{number}",
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check) -> None:
    network = FakePodNetwork()
    await check(Place(make=lambda: network, pod=make_pod, leftovers=lambda: list(network.held)))
    assert network.violations == []


async def test_what_breaks_the_rules_is_told() -> None:
    network, pod = FakePodNetwork(), make_pod(0)
    planned = network.plan(pod)
    await network.attach(pod, planned)
    await network.attach(pod, planned)
    await network.detach(dataclasses.replace(pod, uid="other"), planned)
    assert [violation[:3] for violation in network.violations] == ["ADD", "DEL"]


async def test_a_failed_attach_holds_its_address_until_a_successful_detach() -> None:
    network, pod = FakePodNetwork(), make_pod(0)
    network.script("attach", Fail(NetworkFailed("no")))
    network.script("detach", Fail(NetworkFailed("no")))
    with pytest.raises(NetworkFailed):
        await network.attach(pod, network.plan(pod))
    with pytest.raises(NetworkFailed):
        await network.detach(pod, None)
    assert list(network.held) == [pod.sandbox_id]
    await network.detach(pod, None)
    assert network.held == {}
    assert (network.adds.total(), network.dels.total()) == (1, 1)


async def test_not_ready() -> None:
    network = FakePodNetwork()
    network.ready = False
    assert network.status().reason == "FakeNotReady"
    with pytest.raises(NetworkNotReady):
        network.plan(make_pod(0))
