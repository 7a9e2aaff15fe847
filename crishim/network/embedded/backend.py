"""The `PodNetwork` of the embedded network."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

from cni import CNI, CNIError, NetworkConfList
from cni.plugins.registry import EMBEDDED, EmbeddedInvoker, load
from crishim.errors import InvalidArgument, NetworkFailed
from crishim.network import cni_args
from crishim.network.api import Attached, NetworkStatus, PodAttachment
from crishim.network.conflists import POD_CIDR, ConflistNetwork
from crishim.network.embedded.conf import BRIDGE, make_conflist
from crishim.network.embedded.rules import Rules
from crishim.network.embedded.taken import find_overlap
from crishim.network.setup import NetworkSetup

log = logging.getLogger(__name__)


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
        self._network = make_conflist(self._ranges(), self._leases)
        self._overlap = ""
        self._rules = Rules(BRIDGE)

    def __repr__(self) -> str:
        return f"EmbeddedNetwork({', '.join(self._ranges())})"

    def status(self) -> NetworkStatus:
        if self._overlap:
            return NetworkStatus(False, "RangeInUse", f"{self._overlap}: choose another pod_cidr")
        if problem := self._rules.problem:
            return NetworkStatus(False, "PacketFilter", problem)
        return NetworkStatus(ready=True)

    async def attach(self, pod: PodAttachment, planned: Attached) -> Attached:
        attached = await super().attach(pod, planned)
        self._rules.keep(pod.sandbox_id, attached)
        await self._rules.after_attach()
        return attached

    async def detach(self, pod: PodAttachment, attached: Attached | None) -> None:
        await self._rules.forget(pod.sandbox_id)
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
        await super().gc(valid)
        await self._rules.mend()

    def set_pod_cidr(self, cidr: str) -> None:
        cidrs = cni_args.parse_cidrs(cidr)
        if cidrs:
            self._network = make_conflist(cidrs, self._leases)
            self._memory.put(POD_CIDR, ",".join(cidrs))

    async def start(self) -> None:
        def prepare() -> str:
            for kind in EMBEDDED:  # imports, which take a while
                load(kind)
            return find_overlap(self._ranges(), BRIDGE)

        self._overlap = await asyncio.to_thread(prepare)
        await self._rules.start()

    async def close(self) -> None:
        await self._rules.close()

    def _ranges(self) -> tuple[str, ...]:
        return cni_args.parse_cidrs(self._memory.get(POD_CIDR)) or self._configured

    def _current(self) -> NetworkConfList | None:
        return self._network
