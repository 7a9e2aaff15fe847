"""The bridge: removed with the last pod when the server ends, and put right when somebody else took it away."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from cni import CNIError, parse_conflist, parse_result
from cni.derive import execution_config
from cni.plugins.api import Call
from cni.plugins.bridge.again import reconnect
from cni.plugins.bridge.options import host_name
from cni.plugins.rtnl import address, link
from cni.plugins.rtnl.route import Route
from crishim.network.api import Attached
from crishim.network.embedded.conf import BRIDGE

log = logging.getLogger(__name__)


def find_index() -> int:
    """Return the number that the kernel gave the bridge, another for each new one; 0: there is none."""
    try:
        return socket.if_nametoindex(BRIDGE)
    except OSError:
        return 0


def remove_unused_bridge() -> bool:
    """Remove the bridge unless it has ports; True when it is gone.  Blocks.  Raises OSError."""
    with Route() as route:
        found = link.find(route, BRIDGE)
        if found is None:
            return True
        if link.ports(route, found.index):
            return False
        route.change([link.delete(found.index)])
    return True


@dataclass(frozen=True)
class _Line:
    """A pod's connection as it was made."""

    port: str
    """The host's end."""
    gateways: frozenset[IPv4Interface | IPv6Interface]
    """Addresses of the bridge."""
    call: Call


class Lines:
    """Connections of pods to the bridge.  Remembers what their records say.  Used by one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Attached, _Line]] = {}

    def mend(self, kept: Mapping[str, Attached]) -> tuple[bool, OSError | CNIError | None]:
        """Connect the attached pods again that are not: whether some were, and what kept another one from it.

        Blocks.  Raises OSError, CNIError where none can be.
        """
        lines = self._lines(kept)
        if not lines:
            return False, None
        with Route() as here:
            bridge = link.find(here, BRIDGE)
            if bridge is None or not bridge.up:
                cut = lines
            else:
                ports = {port.name for port in link.ports(here, bridge.index)}
                present = frozenset(address.addresses(here, bridge.index))
                cut = [line for line in lines if line.port not in ports or not line.gateways <= present]
            mended, failed = _reconnect_all(here, cut)
        if mended:
            log.warning("%s was %s: %d pods were connected again", BRIDGE, _told(bridge), mended)
        return mended > 0, failed

    def _lines(self, kept: Mapping[str, Attached]) -> list[_Line]:
        now = {}
        for sandbox_id, attached in list(kept.items()):
            known = self._known.get(sandbox_id)
            now[sandbox_id] = known if known and known[0] is attached else (attached, _make_line(sandbox_id, attached))
        self._known = now
        return [line for _, line in now.values()]


def _reconnect_all(here: Route, cut: list[_Line]) -> tuple[int, OSError | CNIError | None]:
    """How many were connected again, and the first that went wrong: one pod's trouble is not the others'."""
    mended, failed = 0, None
    for line in cut:
        try:
            mended += reconnect(here, line.call)
        except (OSError, CNIError) as error:
            failed = failed or error
    return mended, failed


def _told(bridge: link.Link | None) -> str:
    if bridge is None:
        return "gone"
    return "not what it should be" if bridge.up else "down"


def _make_line(sandbox_id: str, attached: Attached) -> _Line:
    network = parse_conflist(attached.config)
    result = parse_result(attached.result, network.cni_version)
    (plugin,) = (plugin for plugin in network.plugins if plugin["type"] == "bridge")
    gateways = (f"{ip.gateway}/{ip.address.partition('/')[2]}" for ip in result.ips if ip.gateway)
    call = Call(
        verb="CHECK",
        config=execution_config(network, plugin, json.loads(attached.args)["capabilityArgs"], result.raw),
        network=network.name,
        version=network.cni_version,
        prev_result=result,
        container_id=sandbox_id,
        netns=next(one.sandbox for one in result.interfaces if one.sandbox),
        ifname=attached.interface,
    )
    port = host_name(network.name, sandbox_id, attached.interface)
    return _Line(port, frozenset(map(ip_interface, gateways)), call)
