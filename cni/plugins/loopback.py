"""loopback: puts `lo` up in the container's namespace."""

from __future__ import annotations

import sys

from cni import results
from cni.errors import Code
from cni.plugins import netns
from cni.plugins.api import Call, CallFailed, Plugin
from cni.plugins.options import STANDARD, Reader
from cni.plugins.rtnl import Route, address, link
from cni.results import Interface, IPConfig, Result

_NAME = "lo"


class Loopback(Plugin):
    """Has no options."""

    type = "loopback"

    def add(self, call: Call) -> Result:
        _read(call)
        with netns.opened(call.netns) as descriptor, netns.entered(descriptor, call.netns), Route() as inside:
            lo = _find(inside)
            if not lo.up:
                inside.change([link.set_up(lo.index)])
            addresses = address.addresses(inside, lo.index)
        if call.prev_result is not None:
            return call.prev_result
        ips = tuple(IPConfig(address=str(one), interface=0) for one in addresses if one.is_loopback)
        interface = Interface(name=_NAME, mac=lo.mac, sandbox=call.netns)
        return results.make(call.version, interfaces=(interface,), ips=ips)

    def check(self, call: Call) -> None:
        _read(call)
        with netns.opened(call.netns) as descriptor, netns.entered(descriptor, call.netns), Route() as inside:
            if not _find(inside).up:
                raise CallFailed(Code.IO_FAILURE, f"{_NAME} in {call.netns} is down")

    def delete(self, call: Call) -> None:
        """Leave `lo` up: it dies with the namespace, and what still runs in there may need it."""
        _read(call)

    def gc(self, call: Call) -> None:
        """Nothing of ours outlives the namespace."""
        _read(call)

    def status(self, call: Call) -> None:
        _read(call)


def _read(call: Call) -> None:
    Reader(call.config, known=STANDARD).finish()


def _find(inside: Route) -> link.Link:
    lo = link.find(inside, _NAME)
    if lo is None:
        raise CallFailed(Code.IO_FAILURE, f"the namespace has no {_NAME}")
    return lo


if __name__ == "__main__":
    from cni.plugins.executable import main

    sys.exit(main(Loopback()))
