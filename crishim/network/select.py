"""Which backend new pods get, and which one a present pod is detached by."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from crishim.errors import NetworkFailed, Unimplemented
from crishim.network.api import Attached, NetworkStatus, PodAttachment, PodNetwork
from crishim.network.cni_backend import SEEN, CniNetwork
from crishim.network.memory import NetworkMemory
from crishim.network.none import NoNetwork


def make_network(
    choice: str, *, conf_dir: str, bin_dirs: Sequence[str], state_dir: str | None = None, timeout: float = 120.0
) -> PodNetwork:
    """Return the network that `choice` (`auto`, `cni`, `none`, `embedded`) names.

    `conf_dir`, `bin_dirs`: CNI's folders.  `state_dir`: where a few texts are kept; None: nowhere.  `timeout`:
    seconds for one CNI plugin and verb.  Raises Unimplemented for `embedded`.
    """
    memory = NetworkMemory(state_dir)

    def waits_for() -> str:
        # `auto` has no other backend in this version.  A node whose network is still to be installed, or was removed,
        # must wait for it and hand out no addresses of its own.
        if seen := memory.get(SEEN):
            return f"there was one ({seen}), so this node waits for its network"
        if holding := next(filter(_holds_files, bin_dirs), None):
            return f"{holding} holds plugins, so this node waits for its network"
        return "install one, or choose another network (one that needs no configuration comes with a later version)"

    hint = waits_for if choice == "auto" else None
    backends: dict[str, PodNetwork] = {
        "cni": CniNetwork(conf_dir, bin_dirs, memory, timeout=timeout, missing_hint=hint),
        "none": NoNetwork(),
    }
    chosen = backends.get("cni" if choice == "auto" else choice)
    if chosen is None:
        raise Unimplemented(
            f"the network {choice!r} is not built into this version: choose {', '.join(sorted(backends))} or auto"
        )
    return SelectedNetwork(chosen, backends)


class SelectedNetwork(PodNetwork):
    """New pods go to the chosen backend; what was attached by another is detached and checked by that one."""

    def __init__(self, chosen: PodNetwork, backends: Mapping[str, PodNetwork]) -> None:
        self._chosen = chosen
        self._backends = backends
        self.name = chosen.name

    def __repr__(self) -> str:
        return f"SelectedNetwork({self._chosen!r})"

    def status(self) -> NetworkStatus:
        return self._chosen.status()

    def plan(self, pod: PodAttachment) -> Attached:
        return self._chosen.plan(pod)

    async def attach(self, pod: PodAttachment, planned: Attached) -> Attached:
        return await self._backend_of(planned).attach(pod, planned)

    async def detach(self, pod: PodAttachment, attached: Attached | None) -> None:
        await self._backend_of(attached).detach(pod, attached)

    async def check(self, pod: PodAttachment, attached: Attached) -> None:
        await self._backend_of(attached).check(pod, attached)

    async def gc(self, valid: Mapping[str, Attached]) -> None:
        # The others' networks may be somebody else's by now: what is not in our list there is not ours to release.
        await self._chosen.gc(valid)

    def set_pod_cidr(self, cidr: str) -> None:
        self._chosen.set_pod_cidr(cidr)

    async def start(self) -> None:
        for backend in self._backends.values():
            await backend.start()

    async def close(self) -> None:
        for backend in self._backends.values():
            await backend.close()

    def _backend_of(self, attached: Attached | None) -> PodNetwork:
        if attached is None:
            return self._chosen
        backend = self._backends.get(attached.backend)
        if backend is None:
            raise NetworkFailed(f"the pod was attached by the network {attached.backend!r}, which this version lacks")
        return backend


def _holds_files(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_file() for entry in entries)
    except OSError:
        return False
