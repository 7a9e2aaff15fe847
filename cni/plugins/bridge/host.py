"""The host's side: the bridge, its addresses, and the pair's end that is its port."""

from __future__ import annotations

import contextlib
import errno
import os
from ipaddress import ip_interface

from cni.errors import Code
from cni.plugins import netns
from cni.plugins.api import CallFailed
from cni.plugins.bridge import plan
from cni.plugins.bridge.options import Options
from cni.plugins.bridge.plan import Plan
from cni.plugins.nft.netlink import NetlinkError
from cni.plugins.rtnl import Route, address, link
from cni.results import Interface, Result

_FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


def find_bridge(here: Route, name: str) -> link.Link | None:
    """Return the bridge, None when there is none.  Raises CallFailed when something else has the name."""
    found = link.find(here, name)
    if found is not None and found.kind != "bridge":
        raise CallFailed(Code.INVALID_CONFIG, f"bridge: {name} exists and is no bridge")
    return found


def ensure_bridge(here: Route, options: Options) -> link.Link:
    """Return the bridge, made if need be, and up."""
    found = find_bridge(here, options.bridge)
    if found is None:
        mac = "02:" + os.urandom(5).hex(":")
        made = here.change_unless(link.new_bridge(options.bridge, mac, options.mtu), errno.EEXIST)
        if made:
            netns.set_setting(f"net/ipv6/conf/{options.bridge}/accept_ra", "0")
        found = find_bridge(here, options.bridge)
        if found is None:
            raise CallFailed(Code.TRY_AGAIN_LATER, f"the bridge {options.bridge} was taken away as soon as it was made")
    if not found.up:
        here.change([link.set_up(found.index)])
    return found


def connect(
    here: Route,
    undo: contextlib.ExitStack,
    bridge: link.Link,
    namespace: int,
    ours: Interface,
    theirs: Interface,
    mark: str,
    options: Options,
) -> None:
    """Make the pair, one end a port of the bridge, the other in `namespace`.  What `undo` gets takes it away."""
    wanted = link.new_veth(ours.name, ours.mac, bridge.index, theirs.name, theirs.mac, namespace, options.mtu)
    try:
        if not here.change_unless(wanted, errno.EEXIST):
            # Either name is taken.  Ours follows from the attachment: an ADD that nobody saw end has left it.
            if link.find(here, ours.name) is None:
                raise CallFailed(Code.INVALID_CONFIG, f"{theirs.sandbox} has an interface {theirs.name} already")
            here.change([link.delete_named(ours.name)])
            if not here.change_unless(wanted, errno.EEXIST):
                raise CallFailed(Code.INVALID_CONFIG, f"{theirs.sandbox} has an interface {theirs.name} already")
    except NetlinkError as refusal:
        if refusal.errno == errno.EXFULL:
            raise CallFailed(Code.TRY_AGAIN_LATER, f"the bridge {bridge.name} has no port left (1,023)") from refusal
        raise
    undo.callback(_disconnect, ours.name)
    here.change([link.set_up_port(ours.name, mark, link.Port(options.hairpin, options.port_isolation))])


def _disconnect(name: str) -> None:
    with Route() as here:
        here.change_unless(link.delete_named(name), errno.ENODEV)


def lead_to(here: Route, bridge: link.Link, planned: Plan, mac: str, options: Options) -> None:
    """Give the bridge its addresses, tell it who has those of the container, and let the host pass packets on."""
    if not options.is_gateway or not planned.gateways:
        return
    present = address.addresses(here, bridge.index)
    changed = False
    for gateway in map(ip_interface, planned.gateways):
        if gateway in present:
            continue
        for other in present:
            # The reference plugin's rule: one address of IPv4; of IPv6 several, in subnets of their own.
            if other.version != gateway.version or other.is_link_local:
                continue
            if other.version == 6 and not other.network.overlaps(gateway.network):
                continue
            if not options.force_address:
                told = f"the bridge {bridge.name} has the address {other}, not {gateway}, and forceAddress is not set"
                raise CallFailed(Code.INVALID_CONFIG, told)
            here.change_unless(address.delete_address(bridge.index, other), errno.EADDRNOTAVAIL)
        if gateway.version == 6:
            netns.set_setting(f"net/ipv6/conf/{bridge.name}/disable_ipv6", "0")
        here.change_unless(address.new_address(bridge.index, gateway), errno.EEXIST)
        changed = True
    if changed:
        # One that others made takes the address of a port, and another when that goes: fix what it has.
        here.change([link.set_mac(bridge.index, bridge.mac)])
    here.change([address.new_neighbour(bridge.index, ip_interface(ip.address).ip, mac) for ip in planned.ips])
    for family in {plan.version(gateway) for gateway in planned.gateways}:
        netns.set_setting(_FORWARDING[family], "1")


def silence(here: Route, pair: link.Link) -> None:
    """Let the port pass nothing any more, so that its address can be another's at once."""
    if pair.master:
        # ENETDOWN: an ADD that was cut off has not set it up yet, so that it passes nothing anyway.
        silent = (errno.ENODEV, errno.EOPNOTSUPP, errno.EBUSY, errno.EINVAL, errno.ENETDOWN)
        here.change_unless(link.silence_port(pair.index), *silent)


def forget(here: Route, options: Options, result: Result | None) -> None:
    """Forget who had the addresses in `result`."""
    bridge = link.find(here, options.bridge) if result is not None and options.is_gateway else None
    if bridge is None or result is None:
        return
    for ip in result.ips:
        gone = address.delete_neighbour(bridge.index, ip_interface(ip.address).ip)
        here.change_unless(gone, errno.ENOENT, errno.ENODEV)


def check(here: Route, options: Options, name: str, result: Result) -> None:
    """Raise CallFailed when the bridge or the port is not as ADD left it."""
    bridge = find_bridge(here, options.bridge)
    if bridge is None or not bridge.up:
        raise CallFailed(Code.IO_FAILURE, f"the bridge {options.bridge} is {'gone' if bridge is None else 'down'}")
    told = [interface for interface in result.interfaces if not interface.sandbox and interface.name != options.bridge]
    for wanted in {name, *(interface.name for interface in told if interface.name.startswith("veth"))}:
        port = link.find(here, wanted)
        if port is None and wanted == name and told:
            continue  # the reference plugin gave it another name, which `told` has
        if port is None or port.master != bridge.index or not port.up:
            raise CallFailed(Code.IO_FAILURE, f"{wanted} is no port of {options.bridge} that is up")
        if port.port != link.Port(options.hairpin, options.port_isolation):
            raise CallFailed(Code.IO_FAILURE, f"{wanted} has other settings than hairpinMode and portIsolation say")
    if options.is_gateway:
        present = [str(one.ip) for one in address.addresses(here, bridge.index)]
        for ip in result.ips:
            if ip.gateway and ip.gateway not in present:
                raise CallFailed(Code.IO_FAILURE, f"the bridge {options.bridge} has lost the address {ip.gateway}")
