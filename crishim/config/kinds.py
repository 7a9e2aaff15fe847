"""The kinds of value that settings have, with what each allows in words."""

from __future__ import annotations

import ipaddress
import math
import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from crishim.network.pod_ranges import why_unfit

UNIX = "unix://"
SIMULATED = "simulated:"
SOCKET_PATH_LIMIT = 107
"""Bytes of a unix socket's path (unix(7): `sun_path` holds 108 with its end mark)."""

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 1000, "MB": 1000**2, "GB": 1000**3}


def _unix_address(value: str) -> str:
    path = value.removeprefix(UNIX)
    if path == value or not path.startswith("/"):
        raise ValueError("must be unix:// and an absolute path, such as unix:///run/crishim/crishim.sock")
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
        raise ValueError(f"the path of a unix socket may have at most {SOCKET_PATH_LIMIT} bytes")
    return value


def _engine_address(value: str) -> str:
    if value == SIMULATED:
        return value
    try:
        return _unix_address(value)
    except ValueError:
        raise ValueError(
            "must be unix:// and an absolute path of an engine on this machine, such as unix:///var/run/docker.sock, "
            f"or {SIMULATED}"
        ) from None


def _absolute(value: Path) -> Path:
    if not value.is_absolute():
        raise ValueError("must be an absolute path")
    return value


def _split_paths(value: object) -> object:
    return tuple(part for part in value.split(":") if part) if isinstance(value, str) else value


def _some_paths(value: tuple[Path, ...]) -> tuple[Path, ...]:
    if not value:
        raise ValueError("must name at least one folder")
    return value


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _seconds(value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError("must be a number of seconds, 0 or more")
    return value


def _bytes(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("must be a number of bytes, such as 16777216 or 16MiB")
    if isinstance(value, int):
        return value
    found = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]*)\s*", value)
    if found is None or found[2].upper() not in _UNITS:
        raise ValueError("must be a number of bytes, such as 16777216 or 16MiB")
    return int(found[1]) * _UNITS[found[2].upper()]


def _address(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    host, colon, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address stands in brackets, such as [::1]:0")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ValueError("must be an address of this machine and a port, such as 127.0.0.1:0") from None
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("the port must be 0 (any free one) to 65535")
    return address


def _dialable(value: str) -> str:
    if _address(value).is_unspecified:
        raise ValueError("must be one address: clients are sent to it, and nobody can dial an unspecified one")
    return value


def _listenable(value: str) -> str:
    if value:
        _address(value)
    return value


def _pod_ranges(value: str) -> str:
    ranges = []
    for part in filter(None, map(str.strip, value.split(","))):
        try:
            ranges.append(ipaddress.ip_network(part))
        except ValueError as error:
            raise ValueError(f"must be a range of addresses, such as 10.86.0.0/16: {error}") from None
    if not ranges or len({subnet.version for subnet in ranges}) != len(ranges):
        raise ValueError("must be one range, or one of IPv4 and one of IPv6")
    for subnet in ranges:
        if reason := why_unfit(subnet):
            raise ValueError(reason)
    return ",".join(map(str, ranges))


UnixAddress = Annotated[str, AfterValidator(_unix_address)]
EngineAddress = Annotated[str, AfterValidator(_engine_address)]
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
PathList = Annotated[tuple[AbsolutePath, ...], BeforeValidator(_split_paths), AfterValidator(_some_paths)]
"""Several folders, in a text separated by colons."""
Seconds = Annotated[float, BeforeValidator(_number), AfterValidator(_seconds)]
Bytes = Annotated[int, BeforeValidator(_bytes)]
Count = Annotated[int, BeforeValidator(_number)]
MetricsAddress = Annotated[str, AfterValidator(_listenable)]
"""An address of this machine and a port, or empty."""
StreamingAddress = Annotated[str, AfterValidator(_dialable)]
PodRanges = Annotated[str, AfterValidator(_pod_ranges)]
"""One range of IPv4, of IPv6, or one of each, separated by a comma."""
