"""Gateways, routes, names and MACs."""

from __future__ import annotations

from typing import Any

import pytest

from cni.plugins import marks
from cni.plugins.api import Call, CallFailed
from cni.plugins.bridge import plan
from cni.plugins.bridge.options import host_name, mac_of, read_options
from cni.results import IPConfig, Route


def call(**config: Any) -> Call:
    args = config.pop("cni_args", {})
    return Call(verb="ADD", config={"type": "bridge", **config}, network="n", version="1.0.0", args=args)


def test_gateway_and_default_route() -> None:
    options = read_options(call(isDefaultGateway=True))
    made = plan.make([IPConfig(address="10.1.0.5/24")], [], options)
    assert made.ips[0].gateway == "10.1.0.1"
    assert made.gateways == ("10.1.0.1/24",)
    assert made.routes == (Route(dst="0.0.0.0/0", gw="10.1.0.1"),)


def test_no_second_default_route() -> None:
    options = read_options(call(isDefaultGateway=True))
    ips = [IPConfig(address="10.1.0.5/24"), IPConfig(address="10.2.0.5/24"), IPConfig(address="fd00::5/64")]
    made = plan.make(ips, [Route(dst="0.0.0.0/0", gw="10.1.0.9")], options)
    assert [(route.dst, route.gw) for route in made.routes] == [("0.0.0.0/0", "10.1.0.9"), ("::/0", "fd00::1")]


def test_a_route_twice_counts_once() -> None:
    route = Route(dst="192.0.2.0/24")
    assert plan.make([], [route, route], read_options(call())).routes == (route,)


def test_names_follow_from_the_attachment() -> None:
    names = {host_name("n", "c", "eth0"), host_name("n", "c", "eth1"), host_name("m", "c", "eth0")}
    assert len(names) == 3
    assert all(len(name) == 15 for name in names)
    assert host_name("n", "c", "eth0") in names


def test_macs_follow_from_the_address() -> None:
    assert mac_of("10.1.0.5/24", "x") == "0a:58:0a:01:00:05"
    assert mac_of("fd00::5/64", "x") == mac_of("fd00::5/48", "y") != mac_of("fd00::6/64", "x")
    assert mac_of("", "x") != mac_of("", "y")


def test_marks() -> None:
    assert marks.parse(marks.make("n", "c", "eth0"), "n") == ("c", "eth0")
    assert marks.parse(marks.make("n", "c", "eth0"), "m") is None
    assert marks.parse("somebody's own", "n") is None
    assert marks.parse(marks.make("n", "c" * 300, "eth0"), "n") is None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"vlan": 3}, "vlan: this plugin has no such option"),
        ({"promiscMode": True}, "promiscMode: this plugin has no such option"),
        ({"isGateway": "yes"}, "isGateway: must be true or false"),
        ({"mtu": 60}, "mtu: must be 0 or at least 68"),
        ({"mtu": 70000}, "mtu: must be a whole number from 0 to 65535"),
        ({"bridge": "a/b"}, "bridge: 'a/b' is no name"),
        ({"ipam": {"type": "dhcp"}}, "ipam.type: 'dhcp' is not embedded"),
        ({"ipam": [1]}, "ipam: must be an object"),
        ({"dns": {"nameserver": []}}, "dns.nameserver: this plugin has no such option"),
        ({"runtimeConfig": {"portMappings": []}}, "runtimeConfig.portMappings: this plugin has no such option"),
        ({"runtimeConfig": {"mac": "01:00:00:00:00:01"}}, "mac: "),
        ({"args": {"cni": {"mac": "x"}}}, "mac: 'x' is no address"),
        ({"cni_args": {"MAC": "00:00:00:00:00:00"}}, "mac: "),
    ],
)
def test_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(CallFailed) as caught:
        read_options(call(**config))
    assert str(caught.value).startswith(words)


def test_the_capability_comes_before_args() -> None:
    asked = {"runtimeConfig": {"mac": "02-00-00-00-00-01"}, "args": {"cni": {"mac": "02:00:00:00:00:02"}}}
    assert read_options(call(**asked, cni_args={"MAC": "02:00:00:00:00:03"})).mac == "02:00:00:00:00:01"
