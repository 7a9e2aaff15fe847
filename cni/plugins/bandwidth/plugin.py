"""The verbs of bandwidth.

What the container receives (`ingress`) is queued where the host's end of its pair sends it.  What it sends (`egress`)
the host's end receives, and what is received cannot be queued: it is redirected to an intermediate functional block
(ifb), which sends it on.  Rates, names and queues are the reference plugin's.

Shaping is pyroute2's work, loaded when there is a limit to set or to check.  What runs for pods without one, DEL and GC
too, does not need it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cni import results
from cni.errors import Code
from cni.plugins import marks, netns
from cni.plugins.api import Call, CallFailed, Plugin
from cni.plugins.options import STANDARD, Reader, invalid
from cni.plugins.rtnl import Route, link
from cni.results import Interface, Result

if TYPE_CHECKING:
    from cni.plugins.bandwidth.shaping import Shaping

_LATENCY = 0.025  # seconds that a packet waits at most
_BURST_AT_MOST = (1 << 32) * 8 - 8  # bits; the kernel counts bytes in 32 bits
_RATE_AT_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class Limit:
    """Bits per second, and bits at once after a pause; 0 and 0: no limit."""

    rate: int
    burst: int


@dataclass(frozen=True)
class Options:
    """The limits of what the container receives and of what it sends."""

    ingress: Limit
    egress: Limit

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return bool(self.ingress.rate or self.egress.rate)


def read_options(call: Call) -> Options:
    """Read the limits: those in the configuration, else those of the capability `bandwidth`.  Raises CallFailed."""
    reader = Reader(call.config, known=STANDARD)
    own = Options(_limit(reader, "ingress"), _limit(reader, "egress"))
    dynamic = reader.object("runtimeConfig")
    asked = dynamic.object("bandwidth")
    for_this = Options(_limit(asked, "ingress"), _limit(asked, "egress"))
    for one in (asked, dynamic, reader):
        one.finish()
    return own if own.any else for_this


def _limit(reader: Reader, which: str) -> Limit:
    rate = reader.number(f"{which}Rate", most=_RATE_AT_MOST)
    burst = reader.number(f"{which}Burst", most=_BURST_AT_MOST)
    if bool(rate) != bool(burst):
        raise invalid(reader.position(f"{which}Burst"), f"{which}Rate and {which}Burst are set both or not at all")
    if rate and (rate < 8 or burst < 8):
        raise invalid(reader.position(f"{which}Rate"), "must be at least one byte, 8 bits")
    return Limit(rate, burst)


def ifb_name(network: str, container_id: str) -> str:
    """Return the name of the link that queues what the container sends."""
    return "bwp" + hashlib.sha512(f"{network}{container_id}".encode()).hexdigest()[:12]


class Bandwidth(Plugin):
    """Comes after a plugin that made a veth pair; its result is that plugin's, and the ifb if it made one."""

    type = "bandwidth"

    def add(self, call: Call) -> Result:
        options = read_options(call)
        if call.prev_result is None:
            raise CallFailed(Code.INVALID_CONFIG, "prevResult: bandwidth comes after another plugin")
        if not options.any:
            return call.prev_result
        from cni.plugins.bandwidth.shaping import Shaping  # late: it loads pyroute2

        result = call.prev_result
        pair = _host_end(call, call.prev_result)
        with Shaping() as shaping, contextlib.ExitStack() as undo:
            if options.ingress.rate:
                _limit_link(shaping, pair.index, options.ingress)
                undo.callback(shaping.unlimit, pair.index)
            call.goes_on()
            if options.egress.rate:
                name = ifb_name(call.network, call.container_id)
                undo.callback(shaping.take_ifb, name)
                ifb = shaping.make_ifb(name, pair.mtu, marks.make(call.network, call.container_id, call.ifname))
                _limit_link(shaping, ifb.index, options.egress)
                shaping.redirect(pair.index, ifb.index)
                undo.callback(shaping.stop_redirecting, pair.index)
                made = Interface(name=ifb.name, mac=ifb.mac)
                result = results.make(
                    call.version,
                    interfaces=(*result.interfaces, made),
                    ips=result.ips,
                    routes=result.routes,
                    dns=result.dns,
                )
            call.goes_on()
            undo.pop_all()
        return result

    def check(self, call: Call) -> None:
        options = read_options(call)
        if not options.any or call.prev_result is None:
            return
        from cni.plugins.bandwidth.shaping import Shaping

        pair = _host_end(call, call.prev_result)
        with Shaping() as shaping:
            if options.ingress.rate:
                _check_rate(shaping, pair.index, pair.name, options.ingress)
            if options.egress.rate:
                ifb = shaping.ifb(ifb_name(call.network, call.container_id))
                if ifb is None or not ifb.up:
                    raise CallFailed(Code.IO_FAILURE, "the link that queues what the container sends is gone or down")
                _check_rate(shaping, ifb.index, ifb.name, options.egress)
                if not shaping.redirects(pair.index):
                    raise CallFailed(Code.IO_FAILURE, f"what {pair.name} receives is not redirected to {ifb.name}")

    def delete(self, call: Call) -> None:
        """Take the ifb away.  The other limits go with the pair."""
        read_options(call)
        with Route() as here:
            ifb = link.find(here, ifb_name(call.network, call.container_id))
        if ifb is not None:
            call.later(lambda: _take_away(ifb.index))

    def gc(self, call: Call) -> None:
        read_options(call)
        with Route() as here:
            for ifb in link.of_kind(here, "ifb"):
                owner = marks.parse(ifb.alias, call.network)
                if owner is not None and owner not in call.valid:
                    here.change_unless(link.delete(ifb.index), errno.ENODEV)

    def status(self, call: Call) -> None:
        read_options(call)


def _host_end(call: Call, result: Result) -> link.Link:
    """Return the host's end of the container's pair; it must be in the result.  Raises CallFailed."""
    with netns.opened(call.netns) as namespace, netns.entered(namespace, call.netns), Route() as inside:
        end = link.find(inside, call.ifname)
    if end is None or end.kind != "veth":
        raise CallFailed(Code.INVALID_CONFIG, f"{call.ifname} in {call.netns} is no end of a veth pair")
    with Route() as here:
        for interface in result.interfaces:
            if not interface.sandbox and (found := link.find(here, interface.name)) and found.index == end.peer:
                return found
    raise CallFailed(Code.INVALID_CONFIG, f"prevResult: does not tell the host's end of {call.ifname}")


def _limit_link(shaping: Shaping, index: int, limit: Limit) -> None:
    rate, burst = limit.rate // 8, limit.burst // 8
    shaping.limit(index, rate, burst, int(rate * _LATENCY) + burst)


def _check_rate(shaping: Shaping, index: int, name: str, limit: Limit) -> None:
    if shaping.rate(index) != limit.rate // 8:
        raise CallFailed(Code.IO_FAILURE, f"{name} is not limited to {limit.rate} bits per second")


def _take_away(index: int) -> None:
    with Route() as here:
        here.change_unless(link.delete(index), errno.ENODEV)
