"""The plugin `portmap`: ports of the host lead to the container.

Chained behind a plugin that gave the container addresses.  Its mappings are the capability argument `portMappings`; it
has no option of its own.  TCP, UDP and SCTP; from other hosts, from this one (127.0.0.1 too, not ::1), from containers
of the same bridge, the mapped one itself included (which needs the bridge's `hairpinMode`).
"""

from __future__ import annotations

import ipaddress
import logging
import sys

from cni.errors import Code
from cni.plugins.api import Call, CallFailed, Plugin
from cni.plugins.nft import conntrack, route_localnet, routes, skeleton
from cni.plugins.nft.encode import Element
from cni.plugins.nft.owner import owned, owner, replacing, stale
from cni.plugins.nft.ruleset import Change, Elements, ruleset
from cni.plugins.options import STANDARD, Reader
from cni.plugins.portmap_rules import (
    PROTOCOLS,
    SETS,
    TAKEN,
    IPInterface,
    Port,
    make_elements,
    parse_mappings,
    parse_port,
)
from cni.results import Result

log = logging.getLogger(__name__)

_NOT_AS_MADE = 100
_UDP = PROTOCOLS["udp"]


class Portmap(Plugin):
    """Maps host ports with nftables."""

    type = "portmap"

    def add(self, call: Call) -> Result:
        result = _prev_result(call)
        wanted = _wanted(call, result)
        if not wanted:
            return result
        guards = [skeleton.guard(name) for name in _interfaces(wanted)]
        call.goes_on()

        def plan(now: Elements) -> Change:
            _refuse_taken(now, wanted, _owner(call))
            missing = [guard for guard in guards if (guard.set, guard.key) not in now]
            change = replacing(now, wanted, owned(now, SETS, _owner(call)))
            return Change(change.remove, (*missing, *change.add))

        try:
            ruleset().change(plan)
            for guard in guards:
                route_localnet.allow(guard.key.rstrip(b"\0").decode())
            _forget_passing_by(wanted)
            call.goes_on()
        except BaseException:
            _remove(call)
            raise
        return result

    def check(self, call: Call) -> None:
        rules = ruleset()
        now = rules.elements()
        assert call.prev_result is not None
        wanted = _wanted(call, call.prev_result)
        for element in wanted:
            if now.get((element.set, element.key)) != element:
                what = parse_port(element) or element.chain
                raise CallFailed(_NOT_AS_MADE, f"host port {what} is not mapped", f"set {element.set}")
        if wanted and not rules.intact():
            raise CallFailed(_NOT_AS_MADE, f"the rules of table inet {skeleton.TABLE} are not what they should be")

    def delete(self, call: Call) -> None:
        # By the owner, whatever ports the configuration tells: they may be lost.
        _remove(call)

    def gc(self, call: Call) -> None:
        _read(call)
        ruleset().change(lambda now: Change(remove=tuple(stale(now, SETS, call.network, call.valid))))

    def status(self, call: Call) -> None:
        _read(call)
        try:
            ruleset().elements()
        except OSError as error:
            raise CallFailed(Code.PLUGIN_NOT_AVAILABLE, "the kernel's nftables cannot be used", str(error)) from error


def _owner(call: Call) -> str:
    return owner(call.network, call.container_id, call.ifname)


def _prev_result(call: Call) -> Result:
    if call.prev_result is None:
        raise CallFailed(Code.INVALID_CONFIG, "prevResult: portmap is to be chained behind a plugin with addresses")
    return call.prev_result


def _read(call: Call) -> Reader:
    """Read the configuration; return the reader of runtimeConfig."""
    reader = Reader(call.config, known=STANDARD)
    reader.finish()
    return reader.object("runtimeConfig")


def _wanted(call: Call, result: Result) -> list[Element]:
    runtime = _read(call)
    mappings = parse_mappings(runtime)
    runtime.finish()
    if not mappings:
        return []
    addresses: list[IPInterface] = [
        ipaddress.ip_interface(ip.address)
        for ip in result.ips
        if ip.interface is None or result.interfaces[ip.interface].name == call.ifname
    ]
    if not addresses:
        raise CallFailed(Code.INVALID_CONFIG, f"prevResult: no address of {call.ifname} for host ports to lead to")
    return make_elements(_owner(call), mappings, addresses)


def _interfaces(wanted: list[Element]) -> list[str]:
    """Interfaces of this host behind which the containers' IPv4 addresses are neighbours."""
    addresses = {port.address for element in wanted if (port := parse_port(element)) and port.version == 4}
    paths = [routes.find(address) for address in sorted(addresses, key=str)]
    return sorted({path.interface for path in paths if path is not None and path.direct})


def _refuse_taken(now: Elements, wanted: list[Element], comment: str) -> None:
    for element in wanted:
        there = now.get((element.set, element.key))
        if there is not None and there.comment != comment and (port := parse_port(element)):
            raise CallFailed(TAKEN, f"host port {port} is taken", f"by {there.comment}")


def _remove(call: Call) -> None:
    gone: list[Element] = []

    def plan(now: Elements) -> Change:
        gone[:] = owned(now, SETS, _owner(call))
        return Change(remove=tuple(gone))

    ruleset().change(plan)
    for port in _udp_ports(gone):

        def to_the_container(found: conntrack.Connection, port: Port = port) -> bool:
            return found.answered_by == port.address

        _forget(port, to_the_container)


def _forget_passing_by(wanted: list[Element]) -> None:
    """Connections from before, to this host's port or to another container that had it."""
    for port in _udp_ports(wanted):

        def passing_by(found: conntrack.Connection, port: Port = port) -> bool:
            if found.answered_by == port.address:
                return False
            if port.host_ip is not None:
                return found.destination == port.host_ip
            path = routes.find(found.destination)
            return path is not None and path.local

        _forget(port, passing_by)


def _udp_ports(elements: list[Element]) -> list[Port]:
    return [port for element in elements if (port := parse_port(element)) and port.protocol == _UDP]


def _forget(port: Port, chosen: conntrack.Chosen) -> None:
    try:
        conntrack.forget(port.protocol, port.host_port, port.version, chosen)
    except OSError as error:
        # New connections are right all the same; kernels may lack the part that lists connections.
        log.warning("stale connections to host port %s cannot be forgotten: %s", port, error)


if __name__ == "__main__":
    from cni.plugins.executable import main

    sys.exit(main(Portmap()))
