"""The backend `none`: pods have a loopback and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from crishim.errors import UnsupportedField
from crishim.network import cni_args
from crishim.network.api import Attached, NetworkStatus, PodAttachment, PodNetwork
from crishim.network.setup import NetworkSetup


class NoNetwork(PodNetwork):
    """Always ready; attaching and detaching do nothing, and no address is ever told."""

    name = "none"

    @classmethod
    def from_setup(cls, setup: NetworkSetup) -> NoNetwork:
        """For the entry point group `crishim.networks`; needs nothing of `setup`."""
        return cls()

    def status(self) -> NetworkStatus:
        return NetworkStatus(ready=True)

    def plan(self, pod: PodAttachment) -> Attached:
        """Raises UnsupportedField for a host port, which has no pod address to lead to."""
        for index, mapping in enumerate(pod.port_mappings):
            if mapping.host_port:
                raise UnsupportedField(
                    f"host port {mapping.host_port} needs a pod network, and --network none gives none",
                    field=f"config.port_mappings[{index}].host_port",
                )
        return Attached(backend=self.name, interface="")

    async def attach(self, pod: PodAttachment, planned: Attached) -> Attached:
        return planned

    async def detach(self, pod: PodAttachment, attached: Attached | None) -> None:
        return

    async def check(self, pod: PodAttachment, attached: Attached) -> None:
        return

    async def gc(self, valid: Mapping[str, Attached]) -> None:
        return

    def set_pod_cidr(self, cidr: str) -> None:
        cni_args.parse_cidrs(cidr)  # a mistake is told, though nobody uses the ranges

    async def start(self) -> None:
        return

    async def close(self) -> None:
        return
