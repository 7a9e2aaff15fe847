"""Links, addresses, routes and neighbours of the kernel, by bare rtnetlink messages.

For what every pod needs.  Messages of our own making, because what attaching costs is mostly the making and reading of
messages: about 1 ms in all this way, several with pyroute2, which does the rest.  Functions that make a message are
pure and return a `Request`; those that ask take a `Route`, a socket in one network namespace.  Layouts: rtnetlink(7),
linux/if_link.h.
"""

from __future__ import annotations

from cni.plugins.rtnl.route import Request, Route

__all__ = ["Request", "Route"]
