"""Links, addresses, routes, neighbours and queueing disciplines of the kernel, by bare rtnetlink messages.

Messages of our own making, because what attaching costs is mostly the making and reading of messages: about 1 ms in all
this way, several with a general library.  Functions that make a message are pure and return a `Request`; those that
ask take a `Route`, a socket in one network namespace.  Layouts: rtnetlink(7), linux/if_link.h, linux/pkt_sched.h.
"""

from __future__ import annotations

from cni.plugins.rtnl.route import Request, Route

__all__ = ["Request", "Route"]
