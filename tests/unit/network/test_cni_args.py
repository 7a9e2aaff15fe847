"""What a pod asks, in CNI's words."""

from __future__ import annotations

import pytest

from crishim.errors import InvalidArgument
from crishim.model import DNSConfig, PortMapping, Protocol
from crishim.network.api import PodAttachment
from crishim.network.cni_args import make_args, make_capability_args, parse_cidrs


def pod(**changes) -> PodAttachment:
    base = {"sandbox_id": "s1", "netns_path": "/run/netns/crishim-s1", "name": "web", "namespace": "shop", "uid": "u-1"}
    return PodAttachment(**(base | changes))


def test_args_are_those_that_providers_know():
    assert make_args(pod()) == {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": "shop",
        "K8S_POD_NAME": "web",
        "K8S_POD_INFRA_CONTAINER_ID": "s1",
        "K8S_POD_UID": "u-1",
    }


def test_nothing_asked():
    assert make_capability_args(pod(), ()) == {"aliases": ["web"]}


def test_all_asked():
    asked = make_capability_args(
        pod(
            annotations={"kubernetes.io/ingress-bandwidth": "1M"},
            port_mappings=(
                PortMapping(container_port=80, host_port=8080),
                PortMapping(container_port=53, host_port=53, protocol=Protocol.UDP, host_ip="127.0.0.1"),
                PortMapping(container_port=36, host_port=36, protocol=Protocol.SCTP, host_ip="::1"),
                PortMapping(container_port=9000),
            ),
            dns=DNSConfig(servers=("10.0.0.1",), searches=("a", "b"), options=("ndots:5",)),
            cgroup_parent="/kubepods/podx",
        ),
        ("10.1.0.0/24", "fd00::/64"),
    )
    assert asked == {
        "portMappings": [
            {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
            {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"},
            {"hostPort": 36, "containerPort": 36, "protocol": "sctp", "hostIP": "::1"},
        ],
        "bandwidth": {"ingressRate": 1_000_000, "ingressBurst": 2**31 - 1},
        "ipRanges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]],
        "dns": {"servers": ["10.0.0.1"], "searches": ["a", "b"], "options": ["ndots:5"]},
        "aliases": ["web"],
        "cgroupPath": "/kubepods/podx",
        "io.kubernetes.cri.pod-annotations": {"kubernetes.io/ingress-bandwidth": "1M"},
    }


@pytest.mark.parametrize(
    ("mapping", "field"),
    [
        ({"container_port": 80, "host_port": 70000}, "config.port_mappings[0].host_port"),
        ({"container_port": 80, "host_port": -1}, "config.port_mappings[0].host_port"),
        ({"container_port": 0, "host_port": 80}, "config.port_mappings[0].container_port"),
        ({"container_port": 80, "host_port": 80, "host_ip": "localhost"}, "config.port_mappings[0].host_ip"),
    ],
)
def test_bad_port_mappings(mapping, field):
    with pytest.raises(InvalidArgument) as caught:
        make_capability_args(pod(port_mappings=(PortMapping(**mapping),)), ())
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("", ()),
        ("10.244.1.0/24", ("10.244.1.0/24",)),
        ("10.244.1.5/24, fd00::/64", ("10.244.1.0/24", "fd00::/64")),
    ],
)
def test_cidrs(text, ranges):
    assert parse_cidrs(text) == ranges


@pytest.mark.parametrize("text", ["x", "10.0.0.0/33", "10.0.0.0/24,10.0.1.0/24"])
def test_bad_cidrs(text):
    with pytest.raises(InvalidArgument):
        parse_cidrs(text)
