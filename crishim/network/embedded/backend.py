"""The `PodNetwork` of the embedded network."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv6Address, ip_address

from cni import CNI, CNIError, NetworkConfList
from cni.errors import PluginError
from cni.plugins.portmap_rules import TAKEN
from cni.plugins.registry import EmbeddedInvoker, load
from crishim.errors import HostPortTaken, InvalidArgument, NetworkFailed, UnsupportedField
from crishim.network import cni_args, netns
from crishim.network.api import Attached, NetworkStatus, PodAttachment
from crishim.network.conflists import POD_CIDR, ConflistNetwork
from crishim.network.embedded.bridge import remove_unused_bridge
from crishim.network.embedded.conf import BRIDGE, NAME, keep_plugins, make_conflist
from crishim.network.embedded.leases import Leases
from crishim.network.embedded.rules import PERIOD, Rules
from crishim.network.embedded.taken import find_overlap, leads_elsewhere
from crishim.network.setup import NetworkSetup

log = logging.getLogger(__name__)
_LOOPBACK_6 = IPv6Address("::1")


class EmbeddedNetwork(ConflistNetwork):
    """Pods on a bridge of our own.  Keeps in memory which pods are attached, so that lost rules can be put back."""

    name = "embedded"

    def __init__(self, setup: NetworkSetup) -> None:
        """Raises InvalidArgument for ranges that cannot be used."""
        self._invoker = EmbeddedInvoker()
        super().__init__(CNI(self._invoker, setup.timeout), setup.memory)
        self._leases = os.path.join(setup.run_dir, "networks")
        self._configured = cni_args.parse_cidrs(setup.pod_cidr)
        if not self._configured:
            raise InvalidArgument("the embedded network needs a range of addresses", field="pod_cidr")
        self._network = self._make_network()
        self._overlap = ""
        self._outdated = False
        self._attaching = 0
        self._renewing = asyncio.Lock()
        self._rules = Rules(BRIDGE)
        self._addresses = Leases()

    def __repr__(self) -> str:
        return f"EmbeddedNetwork({', '.join(self._ranges())})"

    def status(self) -> NetworkStatus:
        if self._overlap:
            self._overlap = find_overlap(self._ranges(), BRIDGE)  # until it has been put right
        if self._overlap:
            return NetworkStatus(False, "RangeInUse", f"{self._overlap}: choose another pod_cidr")
        if self._outdated and self._rules.pods:
            reason = f"{self._rules.pods} pods have addresses of a former pod_cidr; new pods start when they are gone"
            return NetworkStatus(False, "RangeChanged", reason)
        if problem := self._rules.problem:
            return NetworkStatus(False, "PacketFilter", problem)
        if self._rules.bridge_gone:
            # Ready all the same: the next pod's attach makes it anew, and has the others connected again.
            reason = (
                f"the bridge {BRIDGE} was deleted under {self._rules.pods} pods; it is made again within {PERIOD:g} s"
            )
            return NetworkStatus(True, "BridgeGone", reason)
        return NetworkStatus(ready=True)

    def plan(self, pod: PodAttachment) -> Attached:
        """Plan without the plugins of which the pod asks nothing; each would cost a millisecond."""
        planned = self._plan(pod)
        for index, mapping in enumerate(pod.port_mappings):
            if mapping.host_port and mapping.host_ip and ip_address(mapping.host_ip) == _LOOPBACK_6:
                raise UnsupportedField(
                    "the kernel lets no packet from ::1 leave the host", field=f"config.port_mappings[{index}].host_ip"
                )
        asked = json.loads(planned.args)["capabilityArgs"].keys()
        return replace(planned, config=keep_plugins(self._network, asked).text)

    async def attach(self, pod: PodAttachment, planned: Attached) -> Attached:
        if self._outdated:
            await self._renew_bridge()
        self._attaching += 1
        try:
            await self._put_leases_back(pod)
            attached = await super().attach(pod, planned)
            self._rules.keep(pod.sandbox_id, attached)
            self._addresses.keep(pod.sandbox_id, attached)
        finally:
            self._attaching -= 1
        await self._rules.after_attach()
        return attached

    def _refusal(self, pod: PodAttachment, error: CNIError) -> NetworkFailed:
        if not isinstance(error, PluginError) or (error.plugin, error.code) != ("portmap", TAKEN):
            return super()._refusal(pod, error)
        _, _, holder = error.details.partition(f"by {NAME} ")
        sandbox_id = holder.partition(" ")[0]
        owner = self._rules.name_of(sandbox_id) or f"sandbox {sandbox_id[:13]}"
        return HostPortTaken(f"pod {pod.namespace}/{pod.name}: {error.message} by {owner}", sandbox=pod.sandbox_id)

    async def detach(self, pod: PodAttachment, attached: Attached | None) -> None:
        await self._rules.forget(pod.sandbox_id)
        await self._addresses.forget(pod.sandbox_id)
        await super().detach(pod, attached)

    async def settle(self, sandbox_id: str) -> None:
        try:
            await self._invoker.settle(sandbox_id)
        except CNIError as error:
            raise NetworkFailed(f"the network of sandbox {sandbox_id[:13]} is not gone: {error}") from error

    async def gc(self, valid: Mapping[str, Attached]) -> None:
        for sandbox_id, attached in valid.items():
            if attached.backend == self.name and attached.result:
                self._rules.keep(sandbox_id, attached)
                self._addresses.keep(sandbox_id, attached)
        await super().gc(valid)
        await self._rules.mend()

    def set_pod_cidr(self, cidr: str) -> None:
        cidrs = cni_args.parse_cidrs(cidr)
        if cidrs:
            self._network = make_conflist(cidrs, self._leases)
            self._outdated = self._outdated or cidrs != self._ranges()
            self._memory.put(POD_CIDR, ",".join(cidrs))
            self._overlap = find_overlap(cidrs, BRIDGE)

    async def start(self) -> None:
        def prepare() -> tuple[str, bool]:
            for plugin in self._network.plugins:  # imports, which take a while
                load(plugin["type"])
            return find_overlap(self._ranges(), BRIDGE), leads_elsewhere(self._ranges(), BRIDGE)

        self._overlap, self._outdated = await asyncio.to_thread(prepare)
        await self._rules.start()

    async def close(self) -> None:
        """With no pod left nothing stays: neither the bridge nor a rule in a foreign chain."""
        await self._rules.close()
        if self._rules.pods == 0 and await self._remove_bridge():
            await self._rules.remove_foreign()

    def _make_network(self) -> NetworkConfList:
        """Make the network with the range that a kubelet told, or else ours.  Raises InvalidArgument for ours."""
        try:
            return make_conflist(self._ranges(), self._leases)
        except InvalidArgument as error:
            if not self._memory.get(POD_CIDR):
                raise
            log.warning("the range that was told before this start is not used: %s", error)
            self._memory.put(POD_CIDR, "")
            return make_conflist(self._configured, self._leases)

    async def _put_leases_back(self, pod: PodAttachment) -> None:
        """So that this pod does not get the address of another.  Raises NetworkFailed."""
        try:
            await self._addresses.put_back()
        except (OSError, CNIError) as error:
            raise NetworkFailed(
                f"pod {pod.namespace}/{pod.name}: the addresses of other pods cannot be written down: {error}",
                sandbox=pod.sandbox_id,
            ) from error

    async def _renew_bridge(self) -> None:
        """With other ranges than the bridge was made for: make it anew if nobody uses it, else let ADD say so."""
        async with self._renewing:
            if self._outdated and not self._attaching and self._rules.pods == 0:
                self._outdated = not await self._remove_bridge()

    async def _remove_bridge(self) -> bool:
        """Remove the bridge if it has no ports; False: it has.  Raises NetworkFailed."""
        try:
            return await netns.in_thread(remove_unused_bridge, "bridge")
        except OSError as error:
            raise NetworkFailed(f"the bridge {BRIDGE} cannot be removed: {error}") from error

    def _ranges(self) -> tuple[str, ...]:
        return cni_args.parse_cidrs(self._memory.get(POD_CIDR)) or self._configured

    def _current(self) -> NetworkConfList | None:
        return self._network
