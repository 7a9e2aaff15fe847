"""The pod's /etc/resolv.conf (CRI `DNSConfig`)."""

from __future__ import annotations

from crishim.errors import InvalidArgument
from crishim.model import DNSConfig


def make_resolv_conf(dns: DNSConfig | None) -> str:
    """The file's text, empty when the pod asks for nothing and the engine's file stays. Raises InvalidArgument."""
    if dns is None or not (dns.servers or dns.searches or dns.options):
        return ""
    for name in ("servers", "searches", "options"):
        for i, word in enumerate(getattr(dns, name)):
            if not word or word.split() != [word]:
                raise InvalidArgument(f"{word!r} is not one word", field=f"config.dns_config.{name}[{i}]")
    lines = [f"nameserver {server}" for server in dns.servers]
    if dns.searches:
        lines.append("search " + " ".join(dns.searches))
    if dns.options:
        lines.append("options " + " ".join(dns.options))
    return "\n".join(lines) + "\n"
