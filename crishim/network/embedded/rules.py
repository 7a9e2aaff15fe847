"""Keeps the packet filter's rules of the attached pods in place, and the pods on their bridge, whoever takes them away.

Attaching a pod puts its own rules there, and the table's.  Those of the others are put back when rules were changed by
somebody else: at the next attach, and by a look every ten seconds.  So are pods whose bridge was deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping

from cni import CNIError, jsontext, parse_conflist, parse_result
from cni.args import encode_args
from cni.derive import execution_config
from cni.plugins import dispatch
from cni.plugins.nft import masquerade
from cni.plugins.nft.ruleset import ruleset
from cni.plugins.registry import load
from crishim.network import netns
from crishim.network.api import Attached
from crishim.network.embedded import legacy
from crishim.network.embedded.bridge import Lines, find_index
from crishim.network.embedded.forward import Forward

log = logging.getLogger(__name__)

PERIOD = 10.0
"""Seconds between looks.  As long as nobody changed anything one costs a list of the bridge's ports."""


class Rules:
    """The rules of all attached pods.  Of one event loop."""

    def __init__(self, bridge: str, period: float = PERIOD) -> None:
        self._period = period
        self._kept: dict[str, Attached] = {}
        self._forward = Forward(bridge)
        self._mending = asyncio.Lock()
        self._lines = Lines()
        self._reads = -1
        self._index = 0
        """The bridge's number when it was last looked at."""
        self._watching: asyncio.Task[None] | None = None
        self.problem = ""
        """What keeps pods' packets from passing, for people; "" when nothing is known to."""

    @property
    def pods(self) -> int:
        """How many pods' rules are kept."""
        return len(self._kept)

    @property
    def bridge_gone(self) -> bool:
        """Whether the pods' bridge was there at the last look, and is not now.  Cheap (a system call)."""
        return bool(self._kept and self._index and not find_index())

    def name_of(self, sandbox_id: str) -> str:
        """Name a pod whose rules are kept (`pod NAMESPACE/NAME`), "" one that is not known."""
        if (attached := self._kept.get(sandbox_id)) is None:
            return ""
        args = json.loads(attached.args)["args"]
        return f"pod {args['K8S_POD_NAMESPACE']}/{args['K8S_POD_NAME']}"

    async def remove_foreign(self) -> None:
        """Take away what was put into foreign chains; what cannot be is logged."""
        try:
            await self._forward.remove()
        except OSError as error:
            log.warning("rules marked crishim may be left in foreign chains: %s", error)

    def keep(self, sandbox_id: str, attached: Attached) -> None:
        """From now on put this pod's rules back when they are gone."""
        self._kept[sandbox_id] = attached

    async def forget(self, sandbox_id: str) -> None:
        """Do not put them back any more; nobody is at it when this returns."""
        if self._kept.pop(sandbox_id, None) is not None and self._mending.locked():
            async with self._mending:
                pass

    async def after_attach(self) -> None:
        """Mend what others changed since the last look; nothing if nobody did."""
        index = find_index()
        another = index != self._index and self.pods > 1  # the first pod's attach has made it
        self._index = index
        if another or ruleset().reads != self._reads or await self._forward.changed():
            await self.mend()

    async def mend(self) -> None:
        """Put back what is gone, and see to foreign chains.  What cannot be done is in `problem`."""
        async with self._mending:
            try:
                changed = await netns.in_thread(self._look, "rules")
                problem = await self._forward.ensure() if changed or legacy.is_in_use() else self.problem
                self._reads = ruleset().reads
            except (OSError, CNIError) as error:
                problem = f"what was taken away cannot be put back: {error}"
                self._reads = -1  # the next look is at everything again
            if problem and problem != self.problem:
                log.warning("%s", problem)
            self.problem = problem

    def _look(self) -> bool:
        """Make sure of bridge and rules; False: nobody changed any rule.  Raises OSError, CNIError."""
        connected, failed = self._lines.mend(self._kept)
        self._index = find_index()
        # A new bridge has lost settings that host ports need.
        changed = _put_back(self._kept, -1 if connected else self._reads)
        if failed is not None:
            raise failed
        return changed

    async def start(self) -> None:
        """Begin to look."""
        await self.mend()
        self._watching = asyncio.create_task(self._watch(), name="packet filter rules")

    async def close(self) -> None:
        """End looking; the rules stay."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._period)
            await self.mend()


def _put_back(kept: Mapping[str, Attached], reads: int) -> bool:
    """Make sure of all pods' rules; False: nobody changed any since `reads`.  Raises OSError, CNIError."""
    if ruleset().reads == reads and ruleset().unchanged():
        return False
    for sandbox_id in list(kept):
        if attached := kept.get(sandbox_id):
            _put_back_one(sandbox_id, attached)
    return True


def _put_back_one(sandbox_id: str, attached: Attached) -> None:
    network = parse_conflist(attached.config)
    result = parse_result(attached.result, network.cni_version)
    given = json.loads(attached.args)
    for plugin in network.plugins:
        if plugin["type"] == "bridge" and plugin.get("ipMasq"):
            masquerade.add(network.name, sandbox_id, attached.interface, [ip.address for ip in result.ips])
        elif plugin["type"] == "portmap" and given["capabilityArgs"].get("portMappings"):
            environment = {
                "CNI_COMMAND": "ADD",
                "CNI_CONTAINERID": sandbox_id,
                "CNI_NETNS": "/proc/self/ns/net",  # where the container is does not matter for its ports
                "CNI_IFNAME": attached.interface,
                "CNI_ARGS": encode_args(given["args"]),
            }
            config = execution_config(network, plugin, given["capabilityArgs"], result.raw)
            dispatch.run(load("portmap"), environment, jsontext.dumps(config).encode())
