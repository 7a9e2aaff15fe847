"""The verbs of bridge."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import replace

from cni import results
from cni.errors import Code
from cni.plugins import marks, netns
from cni.plugins.api import Call, CallFailed, Plugin
from cni.plugins.bridge import container, host, plan
from cni.plugins.bridge.options import Options, host_name, mac_of, read_options
from cni.plugins.host_local import HostLocal
from cni.plugins.nft import masquerade
from cni.plugins.nft.netlink import NetlinkError
from cni.plugins.rtnl import Route, link
from cni.results import Interface, Result

_ipam = HostLocal()


class Bridge(Plugin):
    """Connects containers with each other, with the host, and with what the host reaches."""

    type = "bridge"

    def add(self, call: Call) -> Result:
        options = read_options(call)
        with contextlib.ExitStack() as undo, netns.opened(call.netns) as namespace, Route() as here:
            bridge = host.ensure_bridge(here, options)
            given = results.make(call.version)
            if options.ipam:
                given = _ipam.add(call)
                undo.callback(_ipam.delete, call)
            planned = plan.make(given.ips, given.routes, options)
            name = host_name(call.network, call.container_id, call.ifname)
            mac = options.mac or mac_of(planned.first_address, call.container_id + call.ifname)
            call.goes_on()
            ours = Interface(name=name, mac=mac_of("", name), mtu=options.mtu)
            theirs = Interface(name=call.ifname, mac=mac, mtu=options.mtu, sandbox=call.netns)
            mark = marks.make(call.network, call.container_id, call.ifname)
            host.connect(here, undo, bridge, namespace, ours, theirs, mark, options)
            call.goes_on()
            container.configure(namespace, call.netns, theirs, planned)
            host.lead_to(here, bridge, planned, mac, options)
            if options.ip_masq and planned.ips:
                undo.callback(masquerade.remove, call.network, call.container_id, call.ifname)
                masquerade.add(call.network, call.container_id, call.ifname, planned.addresses)
            call.goes_on()
            result = _result(call, options, bridge, ours, theirs, planned, given)
            undo.pop_all()
        return result

    def check(self, call: Call) -> None:
        options = read_options(call)
        if options.ipam:
            _ipam.check(call)
        assert call.prev_result is not None
        told = container.told(call.prev_result, call.ifname, call.netns)
        name = host_name(call.network, call.container_id, call.ifname)
        with netns.opened(call.netns) as namespace, Route() as here:
            host.check(here, options, name, call.prev_result)
            container.check(namespace, call.netns, told, call.prev_result)
        if options.ip_masq and call.prev_result.ips:
            masquerade.check(call.network, call.container_id, call.ifname, [ip.address for ip in told.ips])

    def delete(self, call: Call) -> None:
        """Take the pair, the addresses and the rules away.

        The host's end is silenced at once and taken away after the answer: the kernel waits some 20 ms for that.
        """
        options = read_options(call)
        if options.ip_masq:
            masquerade.remove(call.network, call.container_id, call.ifname)
        with Route() as here:
            pair = link.find(here, host_name(call.network, call.container_id, call.ifname))
            if pair is not None:
                host.silence(here, pair)
                call.later(lambda: _take_away(pair.index))
            host.forget(here, options, call.prev_result)
        if pair is None and call.netns:
            _take_away_foreign(call)
        if options.ipam:
            _ipam.delete(call)

    def gc(self, call: Call) -> None:
        options = read_options(call)
        if options.ip_masq:
            masquerade.gc(call.network, call.valid)
        with Route() as here:
            bridge = link.find(here, options.bridge)
            for port in link.ports(here, bridge.index) if bridge is not None else ():
                owner = marks.parse(port.alias, call.network)
                if owner is not None and owner not in call.valid:
                    here.change_unless(link.delete(port.index), errno.ENODEV)
        if options.ipam:
            _ipam.gc(call)

    def status(self, call: Call) -> None:
        options = read_options(call)
        try:
            with Route() as here:
                host.find_bridge(here, options.bridge)
        except NetlinkError as error:
            raise CallFailed(Code.PLUGIN_NOT_AVAILABLE, str(error)) from error
        if options.ipam:
            _ipam.status(call)


def _result(
    call: Call,
    options: Options,
    bridge: link.Link,
    ours: Interface,
    theirs: Interface,
    planned: plan.Plan,
    given: Result,
) -> Result:
    mtu = options.mtu or bridge.mtu
    interfaces = (
        Interface(name=bridge.name, mac=bridge.mac, mtu=bridge.mtu),
        replace(ours, mtu=mtu),
        replace(theirs, mtu=mtu),
    )
    return results.make(
        call.version,
        interfaces=interfaces,
        ips=tuple(replace(ip, interface=2) for ip in planned.ips),
        routes=planned.routes,
        dns=options.dns or given.dns,
    )


def _take_away(index: int) -> None:
    with Route() as here:
        here.change_unless(link.delete(index), errno.ENODEV)


def _take_away_foreign(call: Call) -> None:
    """Delete a pair that is not named by us, because the reference plugin made it, from the container's side."""
    with contextlib.ExitStack() as stack:
        try:
            namespace = stack.enter_context(netns.opened(call.netns))
            stack.enter_context(netns.entered(namespace, call.netns))
        except CallFailed as failure:
            if failure.code == Code.UNKNOWN_CONTAINER:  # it is gone, and with it all that was in it
                return
            raise
        with Route() as inside:
            pair = link.find(inside, call.ifname)
            if pair is not None and pair.kind == "veth":
                inside.change_unless(link.delete(pair.index), errno.ENODEV)
