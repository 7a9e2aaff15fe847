"""Keeps the leases of attached pods: whoever takes their files away, no address is given out twice.

Only giving out an address can do harm, so that the look comes before each attach.  As long as nothing is missing it
costs a list of the folder.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from ipaddress import ip_interface

from cni import parse_conflist, parse_result
from cni.plugins.host_local import store
from crishim.network import netns
from crishim.network.api import Attached

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Lease:
    folder: str
    """Where the pod's record says that it is: its DEL looks there."""
    address: str
    set_number: int
    container_id: str
    ifname: str
    netns_path: str
    """Of the pod.  Where it is gone (another boot), nobody uses the address."""


class Leases:
    """The leases of all attached pods.  Of one event loop."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Attached, tuple[_Lease, ...]]] = {}
        self._putting = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Leases of {len(self._kept)} pods>"

    def keep(self, sandbox_id: str, attached: Attached) -> None:
        """From now on put this pod's leases back when they are gone."""
        known = self._kept.get(sandbox_id)
        if known is None or known[0] is not attached:
            self._kept[sandbox_id] = (attached, _read(sandbox_id, attached))

    async def forget(self, sandbox_id: str) -> None:
        """Do not put them back any more; nobody is at it when this returns."""
        if self._kept.pop(sandbox_id, None) is not None and self._putting.locked():
            async with self._putting:
                pass

    async def put_back(self) -> None:
        """Make sure of all of them.  Raises OSError, and CNIError while another process holds the folder's lock."""
        if not self._missing():
            return
        async with self._putting:
            if count := await netns.in_thread(self._write, "leases"):
                log.warning("%d addresses of pods were not written down any more; now they are again", count)

    def _missing(self) -> list[_Lease]:
        present: dict[str, frozenset[str]] = {}
        missing = []
        for _, leases in list(self._kept.values()):
            for lease in leases:
                if lease.folder not in present:
                    present[lease.folder] = _list(lease.folder)
                if lease.address not in present[lease.folder] and netns.is_pinned(lease.netns_path):
                    missing.append(lease)
        return missing

    def _write(self) -> int:
        """Blocks."""
        count = 0
        for lease in self._missing():
            with store.opened(lease.folder, None, create=True) as found:
                assert found is not None, "it was made"
                count += found.reserve(
                    ip_interface(lease.address).ip, lease.container_id, lease.ifname, lease.set_number
                )
        return count


def _read(sandbox_id: str, attached: Attached) -> tuple[_Lease, ...]:
    network = parse_conflist(attached.config)
    (bridge,) = (plugin for plugin in network.plugins if plugin["type"] == "bridge")
    folder = os.path.join(bridge["ipam"]["dataDir"], network.name)
    result = parse_result(attached.result, network.cni_version)
    path = next((one.sandbox for one in result.interfaces if one.sandbox), "")
    return tuple(
        _Lease(folder, str(ip_interface(ip.address).ip), number, sandbox_id, attached.interface, path)
        for number, ip in enumerate(result.ips)
    )


def _list(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except FileNotFoundError:
        return frozenset()
