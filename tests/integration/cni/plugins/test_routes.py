"""Routes as the kernel has them: the reference plugins leave some of their numbers out, so no comparison tells."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cni import CNI, Attachment, parse_conflist
from cni.plugins.registry import EmbeddedInvoker

pytestmark = pytest.mark.root


async def test_routes_have_their_numbers(new_netns: Callable[[], str], bridge_name: str, tmp_path: Path) -> None:
    """As the kernel has them, not only as the result tells: MTU, advertised MSS, priority, table."""
    numbers = {"mtu": 1300, "advmss": 1200, "priority": 7}
    routes = [
        {"dst": "192.0.2.0/24", **numbers},
        {"dst": "2001:db8::/64", **numbers},
        {"dst": "198.51.100.0/24", "table": 100, "mtu": 1280},
    ]
    ipam = {
        "type": "host-local",
        "dataDir": str(tmp_path),
        "ranges": [[{"subnet": "10.81.0.0/24"}], [{"subnet": "fd81::/64"}]],
        "routes": routes,
    }
    plugin = {"type": "bridge", "bridge": bridge_name, "isDefaultGateway": True, "ipam": ipam}
    network = parse_conflist(json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": [plugin]}))
    cni, attachment = CNI(EmbeddedInvoker()), Attachment(container_id="c1", ifname="eth0", netns=new_netns())
    result = await cni.add(network, attachment)
    assert [(one.mtu, one.advmss, one.priority, one.table) for one in result.routes[:3]] == [
        (1300, 1200, 7, None),
        (1300, 1200, 7, None),
        (1280, None, None, 100),
    ]

    def shown(*what: str) -> list[dict[str, Any]]:
        command = ["nsenter", f"--net={attachment.netns}", "ip", "-j", *what]
        told: list[dict[str, Any]] = json.loads(subprocess.check_output(command))
        return told

    for family, dst, gateway in (("-4", "192.0.2.0/24", "10.81.0.1"), ("-6", "2001:db8::/64", "fd81::1")):
        (route,) = shown(family, "route", "show", dst)
        assert (route["gateway"], route["metric"]) == (gateway, 7)
        assert route["metrics"] == [{"mtu": 1300, "advmss": 1200}]
    (route,) = shown("-4", "route", "show", "table", "100")
    assert (route["dst"], route["metrics"]) == ("198.51.100.0/24", [{"mtu": 1280}])
    await cni.check(network, attachment, result)
    await cni.delete(network, attachment, result)
