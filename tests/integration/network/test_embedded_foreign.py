"""The embedded network beside foreign FORWARD chains that drop, of both kinds of iptables."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.env import firewall
from tests.integration.network.node import Node, attach

pytestmark = pytest.mark.root
FORWARD = "/proc/sys/net/bridge/bridge-nf-call-iptables"


def iptables(*commands: str, flavour: str = "nft") -> None:
    for command in commands:
        subprocess.run([f"iptables-{flavour}", *command.split()], check=True)


def pair(chain: str, flavour: str) -> list[int]:
    """At which places of the chain the two rules are."""
    command = [f"iptables-{flavour}", "-S", chain]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rules = [rule for rule in listed.splitlines() if rule.startswith("-A")]
    return [place for place, rule in enumerate(rules, start=1) if "--comment crishim -j ACCEPT" in rule]


@pytest.mark.parametrize("flavour", ["nft", "legacy"])
@pytest.mark.parametrize("chain", ["DOCKER-USER", "FORWARD"])
async def test_a_foreign_chain_that_drops(node: Node, chain: str, flavour: str) -> None:
    """Docker's policy, with packets on a bridge passing FORWARD, too: the pair lets them, and goes with the bridge."""
    assert Path(FORWARD).read_text() == "1\n"
    if chain == "DOCKER-USER":
        iptables("-N DOCKER-USER", "-A DOCKER-USER -j RETURN", "-A FORWARD -j DOCKER-USER", flavour=flavour)
    iptables("-P FORWARD DROP", flavour=flavour)
    foreign = [rule for rule in firewall.rules() if "crishim" not in rule]
    network = node.network()
    await network.start()
    pod, other = node.pod(0), node.pod(1)
    attached, also = await attach(network, pod), await attach(network, other)
    node.serve(0)
    assert node.ask(1, attached.ips[0], 80) == also.ips[0]
    assert pair(chain, flavour) == [1, 2], "at its head"
    third = node.pod(2)
    for mend in (network._rules.mend, lambda: attach(network, third)):
        iptables(f"-F {chain}", flavour=flavour)
        if chain == "DOCKER-USER":
            iptables("-A DOCKER-USER -j RETURN", flavour=flavour)
        assert node.ask(1, attached.ips[0], 80, timeout=0.5) == ""
        record = await mend()
        assert pair(chain, flavour) == [1, 2]
        assert node.ask(1, attached.ips[0], 80) == also.ips[0]
    for one, of_it in ((pod, attached), (other, also), (third, record)):
        await network.detach(one, of_it)
        await network.settle(one.sandbox_id)
    await network.close()
    assert pair(chain, flavour) == []
    assert [rule for rule in firewall.rules() if "crishim" not in rule] == foreign
    assert node.left() == []


@pytest.mark.parametrize("flavour", ["nft", "legacy"])
async def test_a_rule_against_somebody_is_not_overruled(node: Node, flavour: str) -> None:
    """Only what drops whatever comes is: a policy, or a last rule, as Red Hat's."""
    iptables("-A FORWARD -s 192.0.2.9 -j DROP", flavour=flavour)
    network = node.network()
    await network.start()
    assert pair("FORWARD", flavour) == []
    iptables("-A FORWARD -j REJECT", flavour=flavour)
    await network._rules.mend()
    assert pair("FORWARD", flavour) == [1, 2]
    await network.close()
    assert pair("FORWARD", flavour) == []


async def test_a_missing_tool_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    iptables("-P FORWARD DROP")
    monkeypatch.setenv("PATH", "/nowhere")
    network = node.network()
    await network.start()
    monkeypatch.undo()
    status = network.status()
    assert not status.ready
    assert status.reason == "PacketFilter"
    assert "iptables-nft is not installed" in status.message
    await network.close()
