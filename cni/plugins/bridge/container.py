"""The container's side: addresses and routes of the pair's other end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface, ip_network

from cni.errors import Code
from cni.plugins import netns
from cni.plugins.api import CallFailed
from cni.plugins.bridge import plan
from cni.plugins.bridge.plan import Plan
from cni.plugins.nft.netlink import NetlinkError
from cni.plugins.rtnl import Request, Route, address, link
from cni.results import Interface, IPConfig, Result


@dataclass(frozen=True)
class Told:
    """What a result says of the container's interface."""

    interface: Interface
    ips: tuple[IPConfig, ...]


def configure(namespace: int, path: str, interface: Interface, planned: Plan) -> None:
    """Put the interface up, give it its addresses, then the routes."""
    with netns.entered(namespace, path), Route(f"the network of {path}") as inside:
        found = link.find(inside, interface.name)
        if found is None:
            raise CallFailed(Code.UNKNOWN_CONTAINER, f"{interface.name} was taken away from {path} meanwhile")
        if planned.has_ipv6:
            # Engines switch IPv6 off in a namespace without a network of theirs, and new interfaces inherit that.
            for name in ("lo", interface.name):
                netns.set_setting(f"net/ipv6/conf/{name}/disable_ipv6", "0")
            netns.set_setting(f"net/ipv6/conf/{interface.name}/accept_dad", "0")
        steps = [("the interface cannot be put up", link.set_up(found.index))]
        for ip in planned.ips:
            request = address.new_address(found.index, ip_interface(ip.address))
            steps.append((f"the address {ip.address} cannot be added", request))
        steps += _routes(found.index, planned)
        try:
            inside.change([request for _, request in steps])
        except NetlinkError as refusal:
            told = f"{interface.name} in {path}: {steps[refusal.sequence][0]}"
            raise CallFailed(Code.IO_FAILURE, told, os.strerror(refusal.errno or 0)) from refusal


def _routes(index: int, planned: Plan) -> list[tuple[str, Request]]:
    steps = []
    for route in planned.routes:
        dst = ip_network(route.dst, strict=False)
        gateway = route.gw or planned.gateway_for(dst.version)
        request = address.new_route(
            index,
            dst,
            ip_address(gateway) if gateway else None,
            mtu=route.mtu or 0,
            advmss=route.advmss or 0,
            priority=route.priority or 0,
            table=route.table or 0,
            scope=route.scope,
        )
        steps.append((f"the route to {route.dst} by {gateway or 'the link'} cannot be added", request))
    return steps


def told(result: Result, ifname: str, path: str) -> Told:
    """Return what a result says of `ifname`.  Raises CallFailed when it says nothing."""
    for index, interface in enumerate(result.interfaces):
        if interface.name == ifname and interface.sandbox:
            if interface.sandbox != path:
                raise CallFailed(Code.INVALID_CONFIG, f"prevResult: {ifname} is in {interface.sandbox}, not in {path}")
            return Told(interface, tuple(ip for ip in result.ips if ip.interface in (None, index)))
    raise CallFailed(Code.INVALID_CONFIG, f"prevResult: no interface {ifname} in a container")


def check(namespace: int, path: str, wanted: Told, result: Result) -> None:
    """Raise CallFailed when interface, addresses or routes are not as the result says."""
    from cni.plugins.bridge import present  # late: it loads pyroute2

    name = wanted.interface.name
    with netns.entered(namespace, path), Route(f"the network of {path}") as inside:
        found = link.find(inside, name)
        if found is None or found.kind != "veth" or not found.up:
            raise CallFailed(Code.IO_FAILURE, f"{name} in {path} is gone, down, or no veth")
        if wanted.interface.mac and wanted.interface.mac.lower() != found.mac:
            raise CallFailed(Code.IO_FAILURE, f"{name} in {path} has the MAC {found.mac}, not {wanted.interface.mac}")
        addresses = address.addresses(inside, found.index)
        for ip in wanted.ips:
            if ip_interface(ip.address) not in addresses:
                raise CallFailed(Code.IO_FAILURE, f"{name} in {path} has lost the address {ip.address}")
        routes = [route for route in result.routes if not route.table]
        known = present.routes(sorted({plan.version(route.dst) for route in routes}), f"the network of {path}")
    for route in routes:
        dst = ip_network(route.dst, strict=False)
        gateway = ip_address(route.gw) if route.gw else None
        if not any(one.dst == dst and gateway in (None, one.gateway) for one in known):
            raise CallFailed(Code.IO_FAILURE, f"{path} has lost the route to {route.dst}")
