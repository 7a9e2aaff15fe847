"""What a pod asks of its network, in the words of CNI: CNI_ARGS and capability arguments.

Pure.  The names are Kubernetes' conventions for CNI, known to network providers from other runtimes.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from crishim.errors import InvalidArgument
from crishim.network.api import PodAttachment
from crishim.network.bandwidth import make_bandwidth


def make_args(pod: PodAttachment) -> dict[str, str]:
    """Return CNI_ARGS; IgnoreUnknown lets plugins that know none of the others accept them."""
    return {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": pod.namespace,
        "K8S_POD_NAME": pod.name,
        "K8S_POD_INFRA_CONTAINER_ID": pod.sandbox_id,
        "K8S_POD_UID": pod.uid,
    }


def make_capability_args(pod: PodAttachment, pod_cidrs: tuple[str, ...]) -> dict[str, Any]:
    """Return the dynamic arguments by capability, without those of which the pod asks nothing.

    Its one alias is its name.  CRI tells neither MAC nor addresses that a pod wants (`mac`, `ips`): plugins that let
    them be chosen read annotations, which they get.

    Raises InvalidArgument naming the field of RunPodSandbox.
    """
    arguments: dict[str, Any] = {
        "portMappings": _port_mappings(pod),
        "bandwidth": make_bandwidth(pod.annotations),
        "ipRanges": [[{"subnet": cidr}] for cidr in pod_cidrs],
        "dns": _dns(pod),
        "aliases": [pod.name],
        "cgroupPath": pod.cgroup_parent,
        "io.kubernetes.cri.pod-annotations": dict(pod.annotations),
    }
    return {name: value for name, value in arguments.items() if value}


def parse_cidrs(text: str) -> tuple[str, ...]:
    """Read the pod ranges of UpdateRuntimeConfig, comma separated; at most one of each family.

    Raises InvalidArgument.
    """
    field = "runtime_config.network_config.pod_cidr"
    ranges = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            ranges.append(ipaddress.ip_network(part, strict=False))
        except ValueError as error:
            raise InvalidArgument(str(error), field=field) from error
    if len({network.version for network in ranges}) != len(ranges):
        raise InvalidArgument(f"{text!r} holds more than one range of a family", field=field)
    return tuple(str(network) for network in ranges)


def _port_mappings(pod: PodAttachment) -> list[dict[str, Any]]:
    mappings = []
    for index, mapping in enumerate(pod.port_mappings):
        if mapping.host_port == 0:
            continue
        field = f"config.port_mappings[{index}]"
        for name, port in (("host_port", mapping.host_port), ("container_port", mapping.container_port)):
            if not 0 < port < 65536:
                raise InvalidArgument(f"{port} is no port", field=f"{field}.{name}")
        entry: dict[str, Any] = {
            "hostPort": mapping.host_port,
            "containerPort": mapping.container_port,
            "protocol": mapping.protocol.name.lower(),
        }
        if mapping.host_ip:
            try:
                entry["hostIP"] = str(ipaddress.ip_address(mapping.host_ip))
            except ValueError as error:
                raise InvalidArgument(str(error), field=f"{field}.host_ip") from error
        mappings.append(entry)
    return mappings


def _dns(pod: PodAttachment) -> dict[str, list[str]]:
    if pod.dns is None:
        return {}
    lists = {"servers": list(pod.dns.servers), "searches": list(pod.dns.searches), "options": list(pod.dns.options)}
    return {name: value for name, value in lists.items() if value}
