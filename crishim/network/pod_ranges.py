"""Which ranges of addresses can be pods'.  Pure."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

_LEAST_HOST_BITS = 2  # network, gateway, one pod, broadcast
_SPECIAL = tuple(
    map(
        ip_network,
        ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "::/127", "fe80::/10", "ff00::/8"),
    )
)
"""Of the machine itself, of one link, of groups (RFC 6890, RFC 5771, RFC 4291): no pod can be reached at these."""


def why_unfit(subnet: IPv4Network | IPv6Network) -> str:
    """Say what keeps a range from being pods'; "" when nothing does."""
    if subnet.max_prefixlen - subnet.prefixlen < _LEAST_HOST_BITS:
        return f"{subnet} has no room for a gateway and a pod"
    special = next((one for one in _SPECIAL if one.version == subnet.version and one.overlaps(subnet)), None)
    return "" if special is None else f"{subnet} cannot be pods': no pod can be reached at addresses of {special}"
