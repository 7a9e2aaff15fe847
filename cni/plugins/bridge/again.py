"""Connecting containers again whose bridge was deleted: their pairs are there, and are ports of nothing.

No verb of CNI does this: CHECK only tells, and ADD is not allowed twice.  It is for a runtime that knows what it
attached.
"""

from __future__ import annotations

import errno
from dataclasses import replace

from cni.plugins import marks
from cni.plugins.api import Call
from cni.plugins.bridge import container, host, plan
from cni.plugins.bridge.options import host_name, read_options
from cni.plugins.rtnl import Route, link


def reconnect(here: Route, call: Call) -> bool:
    """Make the container's host end a port of the bridge; both, and the bridge's addresses, as ADD left them.

    `call` is what CHECK would get.  False: the pair is gone, and only a new ADD helps.  Raises CallFailed, OSError.
    """
    options, result = read_options(call), call.prev_result
    assert result is not None, "as CHECK, it needs ADD's result"
    told = container.told(result, call.ifname, call.netns)
    name = host_name(call.network, call.container_id, call.ifname)
    if link.find(here, name) is None:
        return False
    bridge = host.ensure_bridge(here, options)
    mac = next((one.mac for one in result.interfaces if one.name == bridge.name and not one.sandbox), bridge.mac)
    if mac != bridge.mac:  # containers know their gateway by it
        here.change([link.set_mac(bridge.index, mac)])
        bridge = replace(bridge, mac=mac)
    if not here.change_unless(link.set_master(name, bridge.index), errno.ENODEV):
        return False
    mark = marks.make(call.network, call.container_id, call.ifname)
    here.change([link.set_up_port(name, mark, link.Port(options.hairpin, options.port_isolation))])
    planned = plan.make(told.ips, result.routes, options)
    host.lead_to(here, bridge, planned, told.interface.mac, options)
    return True
