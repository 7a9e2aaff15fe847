"""Which backend new pods get, and which one a present pod is detached by."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from crishim.errors import NetworkFailed, Unimplemented
from crishim.network.api import Attached, NetworkStatus, PodAttachment, PodNetwork
from crishim.network.cni_backend import MISSING, SEEN
from crishim.network.memory import NetworkMemory
from crishim.network.registry import make_backend
from crishim.network.setup import DEFAULT_RANGE, NetworkSetup

log = logging.getLogger(__name__)


def make_network(
    choice: str,
    *,
    conf_dir: str,
    bin_dirs: Sequence[str],
    state_dir: str | None = None,
    run_dir: str = "/run/crishim",
    pod_cidr: str = DEFAULT_RANGE,
    timeout: float = 120.0,
) -> PodNetwork:
    """Return the network that `choice` (`auto`, `cni`, `embedded`, `none`, or one of another package) names.

    `conf_dir`, `bin_dirs`: CNI's folders.  `state_dir`: where a few texts are kept; None: nowhere.  `run_dir`: for what
    must not survive a boot.  `pod_cidr`: the embedded network's ranges.  `timeout`: seconds for one CNI plugin and
    verb.  Raises Unimplemented when there is no such network, InvalidArgument for ranges that cannot be used.
    """
    memory = NetworkMemory(state_dir)
    setup = NetworkSetup(
        memory=memory, conf_dir=conf_dir, bin_dirs=bin_dirs, run_dir=run_dir, pod_cidr=pod_cidr, timeout=timeout
    )
    if choice != "auto":
        return SelectedNetwork(lambda: choice, {choice: make_backend(choice, setup)}, setup)

    def waits_for() -> str:
        # A node whose network is still to be installed, or was removed, must wait for it and hand out no addresses
        # of its own.
        if seen := memory.get(SEEN):
            return f"there was one ({seen}), so this node waits for its network"
        if holding := next(filter(_holds_files, bin_dirs), None):
            return f"{holding} holds plugins, so this node waits for its network"
        return ""

    cni = make_backend("cni", replace(setup, missing_hint=waits_for))

    def choose() -> str:
        alone = cni.status().reason == MISSING and not waits_for()
        return "embedded" if alone else "cni"

    return SelectedNetwork(choose, {"cni": cni, "embedded": make_backend("embedded", setup)}, setup)


class SelectedNetwork(PodNetwork):
    """New pods go to the chosen backend; what was attached by another is detached and checked by that one."""

    def __init__(self, choose: Callable[[], str], backends: Mapping[str, PodNetwork], setup: NetworkSetup) -> None:
        """`choose`: name of the backend for new pods, asked each time.  `backends`: those made so far."""
        self._choose = choose
        self._backends = dict(backends)
        self._setup = setup
        self._started: dict[str, asyncio.Task[None]] = {}
        self._last = ""

    def __repr__(self) -> str:
        return f"SelectedNetwork({self._chosen!r})"

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the backend that new pods get now."""
        return self._chosen.name

    def status(self) -> NetworkStatus:
        return self._chosen.status()

    def plan(self, pod: PodAttachment) -> Attached:
        return self._chosen.plan(pod)

    async def attach(self, pod: PodAttachment, planned: Attached) -> Attached:
        return await (await self._backend_of(planned)).attach(pod, planned)

    async def detach(self, pod: PodAttachment, attached: Attached | None) -> None:
        await (await self._backend_of(attached)).detach(pod, attached)

    async def settle(self, sandbox_id: str) -> None:
        for name in list(self._started):
            await self._backends[name].settle(sandbox_id)

    async def check(self, pod: PodAttachment, attached: Attached) -> None:
        await (await self._backend_of(attached)).check(pod, attached)

    async def gc(self, valid: Mapping[str, Attached]) -> None:
        # Of the others' networks the plugins' may be somebody else's by now: what is not in our list there is not ours
        # to release. The embedded one is always ours.
        names = {self._chosen.name} | {attached.backend for attached in valid.values()} & {"embedded"}
        for name in sorted(names):
            await (await self._start(name)).gc(valid)

    def set_pod_cidr(self, cidr: str) -> None:
        for backend in self._backends.values():
            backend.set_pod_cidr(cidr)

    async def start(self) -> None:
        await self._start(self._chosen.name)

    async def close(self) -> None:
        for name, starting in list(self._started.items()):
            await asyncio.wait([starting])
            await self._backends[name].close()
        self._started.clear()

    @property
    def _chosen(self) -> PodNetwork:
        name = self._choose()
        if name != self._last:
            log.info("new pods get the network %s", name)
            self._last = name
        return self._backends[name]

    async def _backend_of(self, attached: Attached | None) -> PodNetwork:
        return await self._start(self._chosen.name if attached is None else attached.backend)

    async def _start(self, name: str) -> PodNetwork:
        """Return a backend that is started; each is at its first use."""
        if name not in self._backends:
            try:
                self._backends[name] = make_backend(name, self._setup)
            except Unimplemented as error:
                raise NetworkFailed(
                    f"the pod was attached by the network {name!r}, which is missing: {error}"
                ) from error
        backend = self._backends[name]
        if name not in self._started:
            self._started[name] = asyncio.create_task(backend.start(), name=f"start network {name}")
        try:
            await asyncio.shield(self._started[name])
        except asyncio.CancelledError:
            raise
        except BaseException:
            del self._started[name]  # the next use tries again
            raise
        return backend


def _holds_files(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_file() for entry in entries)
    except OSError:
        return False
