"""The pod network's contract, on every backend that comes with crishim."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cni.testing import ScriptedPlugin
from crishim.model import PortMapping
from crishim.network import mounts, netns
from crishim.network.api import PodAttachment, PodNetwork
from crishim.network.none import NoNetwork
from crishim.network.select import make_network
from crishim.testing.network_contract import CHECKS, Check, Place
from tests.env import firewall
from tests.env.cni import make_bridge

BRIDGE = "crtbr2"


def make_pod(number: int, netns_path: str = "/nowhere") -> PodAttachment:
    return PodAttachment(
        sandbox_id=f"pod{number}", netns_path=netns_path, name=f"web-{number}", namespace="shop", uid=f"u-{number}"
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_none(check: Check) -> None:
    await check(Place(make=NoNetwork, pod=make_pod, leftovers=list))


@pytest.fixture
def namespaces(tmp_path: Path) -> Iterator[list[str]]:
    """Four pinned namespaces."""
    directory = str(tmp_path / "netns")
    netns.make_shared(directory)
    paths = [netns.pin_path(directory, f"pod{number}") for number in range(4)]
    for path in paths:
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        holder.stdout.read(1)
        netns.pin_sync(holder.pid, path)
        holder.kill()
        holder.wait()
        holder.stdout.close()
    yield paths
    for path in paths:
        netns.unpin_sync(path)
    if mounts.mount_id(directory) != mounts.mount_id(str(tmp_path)):
        mounts.detach(directory)


@pytest.mark.root
@pytest.mark.parametrize("version", ["0.4.0", "1.0.0"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_cni(check: Check, version: str, tmp_path: Path, namespaces: list[str]) -> None:
    for name in ("conf", "bin"):
        (tmp_path / name).mkdir()
    ScriptedPlugin(tmp_path / "bin", "last")
    ipam = {"type": "host-local", "dataDir": str(tmp_path / "leases"), "subnet": "10.215.0.0/16"}
    plugins = [{"type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipam": ipam}, {"type": "last"}]
    network = {"cniVersion": version, "name": "net", "plugins": plugins}
    (tmp_path / "conf" / "10-net.conflist").write_text(json.dumps(network))

    def leftovers() -> list[str]:
        folder = tmp_path / "leases" / "net"
        leases = [name for name in os.listdir(folder) if name[0].isdigit()] if folder.exists() else []
        links = json.loads(subprocess.check_output(["ip", "-j", "link", "show", "type", "veth"]))
        return [*leases, *(link["ifname"] for link in links)]

    place = Place(
        make=lambda: make_network(
            "cni",
            conf_dir=str(tmp_path / "conf"),
            bin_dirs=[str(tmp_path / "bin"), "/usr/lib/cni"],
            state_dir=str(tmp_path / "state"),
        ),
        pod=lambda number: make_pod(number, namespaces[number]),
        leftovers=leftovers,
    )
    make_bridge(BRIDGE)
    try:
        await check(place)
    finally:
        subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)


@pytest.mark.root
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_embedded(check: Check, tmp_path: Path, namespaces: list[str]) -> None:
    def leftovers() -> list[str]:
        folder = tmp_path / "run" / "networks" / "crishim"
        leases = [name for name in os.listdir(folder) if name[0].isdigit()] if folder.exists() else []
        rules = [rule for rule in firewall.rules() if " crishim " in f" {rule} "]
        ports = Path("/sys/class/net/crishim0/brif")
        return [*leases, *rules, *(os.listdir(ports) if ports.exists() else ())]

    def pod(number: int) -> PodAttachment:
        ports = (PortMapping(container_port=80, host_port=18100 + number),)
        annotations = {"kubernetes.io/egress-bandwidth": "100M"} if number else {}
        return replace(make_pod(number, namespaces[number]), port_mappings=ports, annotations=annotations)

    def make() -> PodNetwork:
        return make_network(
            "embedded", conf_dir="", bin_dirs=(), state_dir=str(tmp_path / "state"), run_dir=str(tmp_path / "run")
        )

    try:
        await check(Place(make=make, pod=pod, leftovers=leftovers))
    finally:
        subprocess.run(["ip", "link", "delete", "crishim0"], check=False, capture_output=True)
