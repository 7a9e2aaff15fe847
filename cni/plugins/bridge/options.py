"""What a bridge network's configuration says.  Pure."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass

from cni.errors import Code
from cni.names import is_interface_name
from cni.plugins.api import Call, CallFailed
from cni.plugins.options import STANDARD, Reader, invalid
from cni.results import DNS

_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}\Z")
_PREFIX = "0a:58:"  # locally administered, and used by CNI plugins for the same purpose since long
_HASHED_PREFIX = "0a:59:"
_LEAST_MTU, _MOST_MTU = 68, 65535


@dataclass(frozen=True)
class Options:
    """The options of one network."""

    bridge: str
    is_gateway: bool
    is_default_gateway: bool
    force_address: bool
    ip_masq: bool
    mtu: int
    """0: the kernel's."""
    hairpin: bool
    port_isolation: bool
    ipam: bool
    """Whether addresses are given out; else the bridge connects and no more."""
    dns: DNS | None
    mac: str
    """What the container asked for; "": nothing."""


def read_options(call: Call) -> Options:
    """Read the configuration.  Raises CallFailed; names keys that there are not."""
    reader = Reader(call.config, known=STANDARD)
    default_gateway = reader.flag("isDefaultGateway")
    options = Options(
        bridge=reader.text("bridge", "cni0"),
        is_gateway=reader.flag("isGateway") or default_gateway,
        is_default_gateway=default_gateway,
        force_address=reader.flag("forceAddress"),
        ip_masq=reader.flag("ipMasq"),
        mtu=reader.number("mtu", most=_MOST_MTU),
        hairpin=reader.flag("hairpinMode"),
        port_isolation=reader.flag("portIsolation"),
        ipam=_ipam(reader),
        dns=_dns(reader),
        mac=_mac(call, reader),
    )
    reader.finish()
    if not is_interface_name(options.bridge):
        raise invalid("bridge", f"{options.bridge!r} is no name for an interface")
    if 0 < options.mtu < _LEAST_MTU:
        raise invalid("mtu", f"must be 0 or at least {_LEAST_MTU}")
    return options


def _ipam(reader: Reader) -> bool:
    ipam = reader.raw("ipam")
    if not ipam:
        return False
    kind = Reader(ipam, "ipam").text("type")
    if kind not in ("", "host-local"):
        raise invalid("ipam.type", f"{kind!r} is not embedded; only host-local is")
    return bool(kind)


def _dns(reader: Reader) -> DNS | None:
    dns = reader.object("dns")
    read = DNS(
        nameservers=dns.texts("nameservers"),
        domain=dns.text("domain"),
        search=dns.texts("search"),
        options=dns.texts("options"),
    )
    dns.finish()
    return None if read == DNS() else read


def _mac(call: Call, reader: Reader) -> str:
    """Return the MAC asked for: by the capability `mac`, else by `args.cni.mac`, else by CNI_ARGS' MAC."""
    dynamic = reader.object("runtimeConfig")
    asked = dynamic.text("mac")
    for of_ipam in ("ips", "ipRanges"):
        dynamic.raw(of_ipam)
    dynamic.finish()
    asked = asked or reader.object("args").object("cni").text("mac") or call.args.get("MAC", "")
    asked = asked.lower().replace("-", ":")
    if asked and (not _MAC.match(asked) or int(asked[:2], 16) & 1 or asked == "00:00:00:00:00:00"):
        raise CallFailed(Code.INVALID_CONFIG, f"mac: {asked!r} is no address that an interface can have")
    return asked


def host_name(network: str, container_id: str, ifname: str) -> str:
    """Return the name of the host's end of the pair.

    It follows from the attachment, so that DEL finds it when the container's namespace is gone or belongs to others.
    """
    return "veth" + hashlib.sha256(f"{network}\n{container_id}\n{ifname}".encode()).hexdigest()[:11]


def mac_of(address: str, what: str) -> str:
    """Return the MAC for an interface whose first address is `address`; for one without address: of `what`.

    An address that is used again then has the MAC that it had before, and no neighbour in the network, be it another
    container, believes what is not true any more.
    """
    if address:
        ip = ipaddress.ip_interface(address).ip
        if ip.version == 4:
            return _PREFIX + ip.packed.hex(":")
        return _HASHED_PREFIX + hashlib.sha256(ip.packed).digest()[:4].hex(":")
    return _HASHED_PREFIX + hashlib.sha256(what.encode()).digest()[:4].hex(":")
