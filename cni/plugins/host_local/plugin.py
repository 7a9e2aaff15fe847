"""The verbs of host-local."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from cni import results
from cni.errors import Code
from cni.plugins.api import Call, CallFailed, Plugin
from cni.plugins.host_local import store
from cni.plugins.host_local.ranges import (
    Address,
    RangeSet,
    candidates,
    check_disjoint,
    parse_requested,
    range_of,
    read_sets,
)
from cni.plugins.host_local.store import Store
from cni.plugins.options import Reader, invalid
from cni.results import IPConfig, Result, Route


@dataclass(frozen=True)
class Options:
    """What `ipam` and the runtime's arguments say."""

    folder: str
    """Where the network's leases are."""
    sets: tuple[RangeSet, ...]
    routes: tuple[Route, ...]
    requested: tuple[Address, ...]
    """Addresses that the container wants; those that no set holds are refused."""


def read_options(call: Call) -> Options:
    """Read the configuration.  Raises CallFailed."""
    reader = Reader(call.config.get("ipam"), "ipam", frozenset({"type"}))
    dynamic = _dynamic(call.config)
    sets = read_sets(dynamic, "ipRanges") + read_sets(reader, "ranges")
    folder = os.path.join(reader.text("dataDir") or store.DEFAULT, call.network)
    routes = tuple(_route(Reader(item, f"ipam.routes[{i}]")) for i, item in enumerate(reader.items("routes")))
    reader.finish()
    if not sets:
        raise invalid("ipam.ranges", "must hold at least one range set")
    check_disjoint(sets, "ipam.ranges")
    return Options(folder, sets, routes, _requested(call, dynamic))


class HostLocal(Plugin):
    """Gives out addresses; the result holds addresses and routes, and no interfaces."""

    type = "host-local"

    def add(self, call: Call) -> Result:
        options = read_options(call)
        wanted = list(options.requested)
        for address in wanted:
            if not any(range_of(ranges, address) for ranges in options.sets):
                raise CallFailed(Code.INVALID_CONFIG, f"{address}, which was asked for, is in none of the ranges")
        with store.opened(options.folder, call.goes_on, create=True) as leases:
            assert leases is not None
            every = leases.leases()
            held = store.of(every, call.container_id, call.ifname)
            if held:
                addresses = ", ".join(lease.address for lease in held)
                raise CallFailed(
                    Code.INVALID_CONFIG,
                    f"{call.container_id} has {addresses} on {call.ifname} already: DEL first",
                )
            taken = {lease.address for lease in every}
            try:
                ips = tuple(
                    _take(leases, taken, call, ranges, number, wanted) for number, ranges in enumerate(options.sets)
                )
                if wanted:
                    raise CallFailed(Code.INVALID_CONFIG, f"{wanted[0]}, which was asked for, is one too many")
                call.goes_on()
            except BaseException:
                for lease in leases.of(call.container_id, call.ifname):
                    leases.release(lease)
                raise
        return results.make(call.version, ips=ips, routes=options.routes)

    def check(self, call: Call) -> None:
        options = read_options(call)
        with store.opened(options.folder, call.goes_on, create=False) as leases:
            if leases is None or not leases.of(call.container_id, call.ifname):
                raise CallFailed(
                    Code.UNKNOWN_CONTAINER, f"no address of {call.network} belongs to {call.container_id} {call.ifname}"
                )

    def delete(self, call: Call) -> None:
        options = read_options(call)
        with store.opened(options.folder, None, create=False) as leases:
            if leases is not None:
                for lease in leases.of(call.container_id, call.ifname):
                    leases.release(lease)

    def gc(self, call: Call) -> None:
        options = read_options(call)
        valid = {store.owner_of(container_id, ifname) for container_id, ifname in call.valid}
        with store.opened(options.folder, None, create=False) as leases:
            if leases is None:
                return
            for lease in leases.leases():
                if lease.owner not in valid:
                    leases.release(lease)

    def status(self, call: Call) -> None:
        options = read_options(call)
        try:
            with store.opened(options.folder, call.goes_on, create=True):
                pass
        except OSError as error:
            raise CallFailed(
                Code.PLUGIN_NOT_AVAILABLE, f"no address can be remembered in {options.folder}: {error.strerror}"
            ) from error


def _take(leases: Store, taken: Set[str], call: Call, ranges: RangeSet, number: int, wanted: list[Address]) -> IPConfig:
    """Take one address of a set: the one that is wanted of it, else the next."""
    for address in wanted:
        one = range_of(ranges, address)
        if one is None:
            continue
        wanted.remove(address)
        if address == one.gateway:
            raise CallFailed(Code.INVALID_CONFIG, f"{address}, which was asked for, is the gateway's")
        if not leases.reserve(address, call.container_id, call.ifname, number):
            raise CallFailed(Code.TRY_AGAIN_LATER, f"{address}, which was asked for, is taken")
        return IPConfig(address=f"{address}/{one.subnet.prefixlen}", gateway=str(one.gateway))
    for address, one in candidates(ranges, leases.last(number)):
        if str(address) not in taken and leases.reserve(address, call.container_id, call.ifname, number):
            return IPConfig(address=f"{address}/{one.subnet.prefixlen}", gateway=str(one.gateway))
    told = ", ".join(map(str, ranges))
    raise CallFailed(Code.TRY_AGAIN_LATER, f"no address of {told} is free")


def _dynamic(config: Mapping[str, Any]) -> Reader:
    return Reader(config.get("runtimeConfig") or {}, "runtimeConfig")


def _requested(call: Call, dynamic: Reader) -> tuple[Address, ...]:
    """Return the addresses asked for: the capability `ips`, else `args.cni.ips`, else CNI_ARGS' IP."""
    texts = dynamic.texts("ips")
    if not texts:
        texts = Reader(call.config.get("args") or {}, "args").object("cni").texts("ips")
    if not texts and (text := call.args.get("IP")):
        texts = (text,)
    return tuple(parse_requested(text) for text in texts)


def _route(reader: Reader) -> Route:
    dst = reader.text("dst")
    numbers = {
        key: None if reader.raw(key) is None else reader.number(key, most=(1 << 32) - 1)
        for key in ("mtu", "advmss", "priority", "table", "scope")
    }
    gateway = reader.address("gw")
    reader.finish()
    try:
        results.check_cidr(dst)
    except ValueError as error:
        raise invalid(reader.position("dst"), str(error)) from None
    return Route(dst=dst, gw="" if gateway is None else str(gateway), **numbers)
