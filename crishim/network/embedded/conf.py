"""The conflist of the embedded network.  Pure."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cni import NetworkConfList, parse_conflist
from crishim.errors import InvalidArgument
from crishim.network.pod_ranges import why_unfit

NAME = "crishim"
"""Name of the network, which addresses and rules are kept under."""
BRIDGE = "crishim0"
"""Name of the bridge."""


def make_conflist(ranges: Sequence[str], lease_dir: str) -> NetworkConfList:
    """Return the network with these ranges (one of each family at most); leases are kept in `lease_dir`.

    Raises InvalidArgument for a range that cannot be pods'.
    """
    for text in ranges:
        if reason := why_unfit(ipaddress.ip_network(text)):
            raise InvalidArgument(reason, field="pod_cidr")
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "isDefaultGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": text}] for text in ranges], "dataDir": lease_dir},
    }
    plugins: list[Mapping[str, Any]] = [
        bridge,
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
    ]
    return _network(plugins)


def keep_plugins(network: NetworkConfList, asked: Collection[str]) -> NetworkConfList:
    """Return the network without plugins that do nothing but what is not among the capabilities `asked` for."""
    kept = [p for p in network.plugins if not (can := p.get("capabilities")) or any(name in asked for name in can)]
    return network if len(kept) == len(network.plugins) else _network(kept)


def _network(plugins: Sequence[Mapping[str, Any]]) -> NetworkConfList:
    return parse_conflist(json.dumps({"cniVersion": "1.1.0", "name": NAME, "plugins": list(plugins)}))
