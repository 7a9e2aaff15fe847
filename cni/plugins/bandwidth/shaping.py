"""Token buckets, and the redirection of what a link receives to an ifb that queues it: by pyroute2.

Imported when there is something to shape and not before (`cni.plugins.iproute` says why).  Layouts of what pyroute2
does not know: linux/pkt_sched.h.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, nla
from pyroute2.netlink.rtnl import RTM_NEWQDISC, TC_H_INGRESS, TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import tcmsg
from pyroute2.protocols import ETH_P_ALL

from cni.plugins.iproute import IPRoute, Refusal, listed, refusals
from cni.plugins.nft.netlink import NetlinkError

_FIRST_HANDLE = 0x00010000
_INGRESS_HANDLE = 0xFFFF0000
_ETHERNET = 1  # link layer; with it the kernel wants no table of times
_UP = 1
_MOST = (1 << 32) - 1
_GONE = (errno.ENODEV, errno.ENOENT, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Ifb:
    """A link whose queue shapes what is redirected to it."""

    index: int
    name: str
    mac: str
    up: bool


class Shaping:
    """A socket in the network namespace of the calling thread.  Use as a context manager, in one thread.

    All methods raise NetlinkError with what the kernel refused.
    """

    def __init__(self) -> None:
        with refusals():
            self._route = IPRoute()
        self._route.asyncore.marshal.msg_map[RTM_NEWQDISC] = _Discipline  # this socket's own map

    def __enter__(self) -> Shaping:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._route.close()

    def limit(self, index: int, rate: int, burst: int, waiting: int) -> None:
        """Let the link send `rate` bytes a second, `burst` bytes at once after a pause, and keep `waiting` bytes."""
        parms = {"link_layer": _ETHERNET, "rate": min(rate, _MOST), "peak": b"", "limit": min(waiting, _MOST)}
        options: list[tuple[str, Any]] = [("TCA_TBF_PARMS", parms), ("TCA_TBF_BURST", burst)]
        if rate > _MOST:
            options.append(("TCA_TBF_RATE64", rate))
        message = _Discipline()
        message["header"]["type"] = RTM_NEWQDISC
        message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
        message["index"], message["handle"], message["parent"] = index, _FIRST_HANDLE, TC_H_ROOT
        message["attrs"] = [("TCA_KIND", "tbf"), ("TCA_OPTIONS", {"attrs": options})]
        with refusals():
            self._route.nlm_request_batch([message])

    def unlimit(self, index: int) -> None:
        """Take the link's own discipline away, if it has one; the kernel's takes its place."""
        with refusals(*_GONE):
            self._route.tc("del", index=index, parent=TC_H_ROOT)

    def rate(self, index: int) -> int | None:
        """Return how many bytes a second the link may send, None when it has no token bucket."""
        for discipline in listed(lambda: self._route.tc("dump", index=index)):
            if discipline["parent"] == TC_H_ROOT and discipline.get_attr("TCA_KIND") == "tbf":
                options = discipline.get_attr("TCA_OPTIONS")
                return int(options.get_attr("TCA_TBF_RATE64") or options.get_attr("TCA_TBF_PARMS")["rate"])
        return None

    def make_ifb(self, name: str, mtu: int, alias: str) -> Ifb:
        """Make an ifb, up and marked with `alias`, in the place of one that has the name already."""
        with refusals():
            try:
                self._add_ifb(name, mtu)
            except Refusal as refusal:  # of an ADD that nobody saw end
                if refusal.code != errno.EEXIST:
                    raise
                self._route.link("del", ifname=name)
                self._add_ifb(name, mtu)
        made = self.ifb(name)
        if made is None:
            raise NetlinkError(errno.ENODEV, name)
        with refusals():
            self._route.link("set", index=made.index, ifalias=alias)
        return made

    def _add_ifb(self, name: str, mtu: int) -> None:
        self._route.link("add", kind="ifb", ifname=name, mtu=mtu, txqlen=1000, state="up")

    def ifb(self, name: str) -> Ifb | None:
        """Return the ifb `name`, None when there is none."""
        with refusals(errno.ENODEV):
            (link,) = self._route.link("get", ifname=name)
            return Ifb(link["index"], name, link.get_attr("IFLA_ADDRESS"), bool(link["flags"] & _UP))
        return None

    def take_ifb(self, name: str) -> None:
        """Take the ifb away, if it is there."""
        with refusals(*_GONE):
            self._route.link("del", ifname=name)

    def redirect(self, index: int, to: int) -> None:
        """Let the link with index `to` send what this one receives, before anything else sees it."""
        action = {"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": to}
        with refusals():
            self._route.tc("add", "ingress", index)
            try:
                self._route.tc(
                    "add-filter",
                    "u32",
                    index,
                    parent=_INGRESS_HANDLE,
                    prio=1,
                    protocol=ETH_P_ALL,
                    target=_FIRST_HANDLE + 1,
                    keys=["0x0/0x0+0"],  # every packet
                    action=action,
                )
            except BaseException:
                self.stop_redirecting(index)
                raise

    def stop_redirecting(self, index: int) -> None:
        """Take the filters on what the link receives away, if there are any."""
        with refusals(*_GONE):
            self._route.tc("del", index=index, parent=TC_H_INGRESS, handle=_INGRESS_HANDLE)

    def redirects(self, index: int) -> bool:
        """Say whether any filter is on what the link receives."""
        return bool(listed(lambda: self._route.get_filters(index=index, parent=_INGRESS_HANDLE)))


class _Discipline(tcmsg):  # type: ignore[misc]  # pyroute2 has no types
    """A queueing discipline; of a token bucket with what pyroute2's own lacks: 64 bits of rate, bytes of burst."""

    class bucket(nla):  # type: ignore[misc]  # noqa: N801  # named by pyroute2's rules
        nla_map = (
            (1, "TCA_TBF_PARMS", "parms"),
            (4, "TCA_TBF_RATE64", "uint64"),
            (6, "TCA_TBF_BURST", "uint32"),
        )

        class parms(nla):  # type: ignore[misc]  # noqa: N801
            fields = (
                ("cell_log", "B"),
                ("link_layer", "B"),
                ("overhead", "H"),
                ("cell_align", "h"),
                ("mpu", "H"),
                ("rate", "I"),
                ("peak", "12s"),
                ("limit", "I"),
                ("buffer", "I"),
                ("mtu", "I"),
            )

    @staticmethod
    def get_options(self: Any, *arguments: Any, **named: Any) -> Any:
        """Say how the options of this kind are laid out; pyroute2 calls it."""
        return self.bucket if self.get_attr("TCA_KIND") == "tbf" else tcmsg.get_options(self, *arguments, **named)
