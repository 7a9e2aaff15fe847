"""What is to be seen of an attachment, without what chance decides: names of pairs, addresses of links, indexes."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from cni.results import Result

_SETTLED = 2.0
"""Seconds that a port may take to pass packets."""
_RANDOM_NAME = re.compile(r"veth[0-9a-f]+\Z")


def result(given: Result, netns: str, bridge: str, chosen_mac: str = "") -> dict[str, Any]:
    """The result, field by field."""
    names = {netns: "NETNS", bridge: "BRIDGE", "": ""}
    return {
        "version": given.cni_version,
        "interfaces": [
            (
                _RANDOM_NAME.sub("PAIR", names.get(one.name, one.name)),
                one.mac if one.mac in (chosen_mac, "00:00:00:00:00:00") else bool(one.mac),
                names[one.sandbox],
                one.mtu,
            )
            for one in given.interfaces
        ],
        "ips": [(one.address, one.gateway, one.interface) for one in given.ips],
        "routes": [(one.dst, one.gw, one.mtu, one.advmss, one.priority, one.table, one.scope) for one in given.routes],
        "dns": given.dns,
    }


def container(netns: str, ifname: str = "eth0") -> dict[str, Any]:
    """The interface, its addresses and the routes in the namespace."""
    (link,) = _json(netns, "-d", "link", "show", ifname)
    addresses = _json(netns, "addr", "show", ifname)[0]["addr_info"]
    return {
        "kind": link["linkinfo"]["info_kind"],
        "mtu": link["mtu"],
        "up": "UP" in link["flags"],
        "addresses": sorted((one["local"], one["prefixlen"]) for one in addresses if one["scope"] == "global"),
        "routes": sorted(
            (route["dst"], route.get("gateway"), route.get("metric"))
            for family in ("-4", "-6")
            for route in _json(netns, family, "route")
            if not route["dst"].startswith("fe80")
        ),
    }


def host(bridge: str) -> dict[str, Any]:
    """The bridge and its ports."""
    (link,) = _json("", "-d", "link", "show", bridge)
    addresses = _json("", "addr", "show", bridge)[0]["addr_info"]
    ports = _ports(bridge)
    deadline = time.monotonic() + _SETTLED
    # The kernel brings a port up on its own, in its time; one whose other end is down stays as it is.
    while any(port["state"] != "forwarding" for port in ports) and time.monotonic() < deadline:
        time.sleep(0.02)
        ports = _ports(bridge)
    return {
        "mtu": link["mtu"],
        "up": "UP" in link["flags"],
        "addresses": sorted((one["local"], one["prefixlen"]) for one in addresses if one["scope"] == "global"),
        "ports": [(port["hairpin"], port["isolated"], port["state"]) for port in ports],
        "forward": Path("/proc/sys/net/ipv4/ip_forward").read_text().strip(),
    }


def _ports(bridge: str) -> list[dict[str, Any]]:
    return [port["linkinfo"]["info_slave_data"] for port in _json("", "-d", "link", "show", "master", bridge)]


def is_up(netns: str, ifname: str) -> bool:
    """Whether a link of the namespace is up."""
    (link,) = _json(netns, "link", "show", ifname)
    return "UP" in link["flags"]


def links() -> set[str]:
    """The names of the host's links."""
    return {link["ifname"] for link in _json("", "link", "show")}


def buckets() -> list[tuple[Any, ...]]:
    """The token buckets: of a bridge's port, and of the ifb that it redirects to."""
    said = subprocess.run(["tc", "-j", "qdisc", "show"], capture_output=True, text=True, check=True).stdout
    found = [one for one in json.loads(said) if one["kind"] == "tbf"]
    return sorted((one["dev"][:3], one["options"]["rate"], one["options"]["burst"]) for one in found)


def _json(netns: str, *arguments: str) -> list[dict[str, Any]]:
    inside = ["nsenter", f"--net={netns}"] if netns else []
    said = subprocess.run([*inside, "ip", "-j", *arguments], capture_output=True, text=True, check=True).stdout
    return [item for item in json.loads(said or "[]") if item]
