"""Results of ADD: the types of CNI 0.3.0 to 1.1.0, read into one, and written back in the version wanted."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from cni import jsontext, versions
from cni.errors import ResultError

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Interface:
    """An interface that a plugin made or moved."""

    name: str
    mac: str = ""
    mtu: int = 0
    """0: not told (as before 1.1.0)."""
    sandbox: str = ""
    """Path of the network namespace it is in; "": the host's."""
    socket_path: str = ""
    """Socket of a user-space interface (1.1.0)."""
    pci_id: str = ""
    """PCI address of the device behind it (1.1.0)."""


@dataclass(frozen=True, kw_only=True)
class IPConfig:
    """An address that was assigned."""

    address: str
    """With prefix length: `10.1.0.5/16`."""
    gateway: str = ""
    interface: int | None = None
    """Index into the result's interfaces."""

    @property
    def ip(self) -> str:
        """The address without its prefix length."""
        return self.address.partition("/")[0]


@dataclass(frozen=True, kw_only=True)
class Route:
    """A route of the container.  Numbers are None where not told (as before 1.1.0)."""

    dst: str
    gw: str = ""
    mtu: int | None = None
    advmss: int | None = None
    priority: int | None = None
    table: int | None = None
    scope: int | None = None


@dataclass(frozen=True, kw_only=True)
class DNS:
    """What plugins want to be in resolv.conf."""

    nameservers: tuple[str, ...] = ()
    domain: str = ""
    search: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of ADD."""

    cni_version: str
    interfaces: tuple[Interface, ...] = ()
    ips: tuple[IPConfig, ...] = ()
    routes: tuple[Route, ...] = ()
    dns: DNS = DNS()
    raw: Mapping[str, Any]
    """As the plugin wrote it, keys unknown to us included: what prevResult must be, and what is worth keeping."""

    @property
    def text(self) -> str:
        """`raw` as JSON, for keeping; `parse_result` reads it back."""
        return jsontext.dumps(self.raw)

    def addresses(self, ifname: str) -> tuple[str, ...]:
        """Return the addresses of the container's interface `ifname` without prefix length, in the plugin's order."""
        return tuple(
            dict.fromkeys(
                ip.ip for ip in self.ips if ip.interface is None or self.interfaces[ip.interface].name == ifname
            )
        )


def parse_result(data: str | bytes, version: str) -> Result:
    """Read the JSON that a plugin printed when it was asked in `version`.

    A result in another version is converted, so that the next plugin can read it; one that tells none is taken to be
    in `version`.  Raises ResultError.
    """
    try:
        raw = jsontext.loads(data)
    except ValueError as error:
        raise ResultError(f"the result is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise ResultError("the result must be a JSON object")
    told = _get(raw, "cniVersion", _text, "") or version
    if told not in versions.SUPPORTED:
        raise ResultError(f"cniVersion: {told!r} is not supported")
    body = raw if versions.has_interfaces(told) else _from_0_2(raw)
    result = Result(
        cni_version=told,
        interfaces=_list(body, "interfaces", _interface),
        ips=_list(body, "ips", _ip),
        routes=_list(body, "routes", _route),
        dns=_get(raw, "dns", _dns, DNS()),
        raw=raw | {"cniVersion": told},
    )
    for index, ip in enumerate(result.ips):
        if ip.interface is not None and not 0 <= ip.interface < len(result.interfaces):
            raise ResultError(f"ips[{index}].interface: {ip.interface} is not in the list of interfaces")
    return result if told == version else convert(result, version)


def convert(result: Result, version: str) -> Result:
    """Return `result` as a plugin that speaks `version` would have written it; what it cannot say is left out."""
    return Result(
        cni_version=version,
        interfaces=result.interfaces,
        ips=result.ips,
        routes=result.routes,
        dns=result.dns,
        raw=_encode(result, version),
    )


def make(
    version: str,
    *,
    interfaces: tuple[Interface, ...] = (),
    ips: tuple[IPConfig, ...] = (),
    routes: tuple[Route, ...] = (),
    dns: DNS | None = None,
) -> Result:
    """Return a result as a plugin that speaks `version` writes it."""
    parts = Result(cni_version=version, interfaces=interfaces, ips=ips, routes=routes, dns=dns or DNS(), raw={})
    return convert(parts, version)


def check_cidr(text: str) -> None:
    """Raise ValueError when `text` is no address with a prefix length."""
    ipaddress.ip_interface(text)
    if "/" not in text:
        raise ValueError(f"{text!r} lacks its prefix length")


# --- reading ---------------------------------------------------------------------------------------------------------


def _get(raw: Mapping[str, Any], key: str, read: Callable[[Any, str], _T], default: _T, at: str = "") -> _T:
    """Read one member; absent and null are the default, as Go's decoder has it."""
    value = raw.get(key)
    return default if value is None else read(value, f"{at}{key}")


def _list(raw: Mapping[str, Any], key: str, read: Callable[[Any, str], _T], at: str = "") -> tuple[_T, ...]:
    value = raw.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ResultError(f"{at}{key}: must be a list")
    return tuple(read(item, f"{at}{key}[{index}]") for index, item in enumerate(value))


_FAMILIES = {"ip4": 4, "ip6": 6}


def _from_0_2(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the addresses and routes of a result from before 0.3.0 as later ones have them."""
    ips: list[dict[str, Any]] = []
    routes: list[Mapping[str, Any]] = []
    for key in _FAMILIES:
        if raw.get(key) is not None:
            told = _object(raw[key], key)
            ips.append({"address": told.get("ip"), "gateway": told.get("gateway")})
            routes += _list(told, "routes", _object, f"{key}.")
    return {"ips": ips, "routes": routes}


def _object(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ResultError(f"{at}: must be an object")
    return value


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise ResultError(f"{at}: must be a string")
    return value


def _number(value: Any, at: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ResultError(f"{at}: must be a whole number")
    return value


def _cidr(value: Any, at: str) -> str:
    text = _text(value, at)
    try:
        check_cidr(text)
    except ValueError as error:
        raise ResultError(f"{at}: {error}") from error
    return text


def _address(value: Any, at: str) -> str:
    text = _text(value, at)
    try:
        if text:
            ipaddress.ip_address(text)
    except ValueError as error:
        raise ResultError(f"{at}: {error}") from error
    return text


def _interface(value: Any, at: str) -> Interface:
    raw, at = _object(value, at), f"{at}."
    return Interface(
        name=_get(raw, "name", _text, "", at),
        mac=_get(raw, "mac", _text, "", at),
        mtu=_get(raw, "mtu", _number, 0, at),
        sandbox=_get(raw, "sandbox", _text, "", at),
        socket_path=_get(raw, "socketPath", _text, "", at),
        pci_id=_get(raw, "pciID", _text, "", at),
    )


def _ip(value: Any, at: str) -> IPConfig:
    raw, at = _object(value, at), f"{at}."
    return IPConfig(
        address=_cidr(raw.get("address"), f"{at}address"),
        gateway=_get(raw, "gateway", _address, "", at),
        interface=_get(raw, "interface", _optional_number, None, at),
    )


def _route(value: Any, at: str) -> Route:
    raw, at = _object(value, at), f"{at}."
    return Route(
        dst=_cidr(raw.get("dst"), f"{at}dst"),
        gw=_get(raw, "gw", _address, "", at),
        **{key: _get(raw, key, _optional_number, None, at) for key in _ROUTE_NUMBERS},
    )


_ROUTE_NUMBERS = ("mtu", "advmss", "priority", "table", "scope")


def _optional_number(value: Any, at: str) -> int | None:
    return _number(value, at)


def _dns(value: Any, at: str) -> DNS:
    raw, at = _object(value, at), f"{at}."
    return DNS(
        nameservers=_list(raw, "nameservers", _text, at),
        domain=_get(raw, "domain", _text, "", at),
        search=_list(raw, "search", _text, at),
        options=_list(raw, "options", _text, at),
    )


# --- writing ---------------------------------------------------------------------------------------------------------


def _encode(result: Result, version: str) -> dict[str, Any]:
    if not versions.has_interfaces(version):
        return _to_0_2(result, version)
    newest = versions.has_gc_and_status(version)  # 1.1.0 added these members too
    interfaces = []
    for interface in result.interfaces:
        entry: dict[str, Any] = {"name": interface.name, "mac": interface.mac, "sandbox": interface.sandbox}
        if newest:
            entry |= {"mtu": interface.mtu, "socketPath": interface.socket_path, "pciID": interface.pci_id}
        interfaces.append(_told(entry))
    ips = []
    for ip in result.ips:
        entry = {"address": ip.address, "gateway": ip.gateway}
        if versions.tells_address_family(version):
            entry["version"] = str(ipaddress.ip_interface(ip.address).version)
        ips.append(_told(entry) | ({} if ip.interface is None else {"interface": ip.interface}))
    routes = []
    for route in result.routes:
        numbers = {key: getattr(route, key) for key in _ROUTE_NUMBERS} if newest else {}
        routes.append(
            _told({"dst": route.dst, "gw": route.gw})
            | {key: value for key, value in numbers.items() if value is not None}
        )
    dns = {
        "nameservers": list(result.dns.nameservers),
        "domain": result.dns.domain,
        "search": list(result.dns.search),
        "options": list(result.dns.options),
    }
    lists = _told({"interfaces": interfaces, "ips": ips, "routes": routes, "dns": _told(dns)})
    return {"cniVersion": version} | lists


def _to_0_2(result: Result, version: str) -> dict[str, Any]:
    """Write what a result could say before 0.3.0: one address of each family, and the routes of that family."""
    raw: dict[str, Any] = {"cniVersion": version}
    for key, family in _FAMILIES.items():
        first = next((ip for ip in result.ips if ipaddress.ip_interface(ip.address).version == family), None)
        if first is not None:
            routes = [route for route in result.routes if ipaddress.ip_interface(route.dst).version == family]
            told = [_told({"dst": route.dst, "gw": route.gw}) for route in routes]
            raw[key] = _told({"ip": first.address, "gateway": first.gateway, "routes": told})
    dns = {key: list(getattr(result.dns, key)) for key in ("nameservers", "search", "options")}
    return raw | _told({"dns": _told(dns | {"domain": result.dns.domain})})


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is empty."""
    return {key: value for key, value in entry.items() if value}
