"""The backend `cni`: the plugins of the first usable conflist give pods their network.

The configuration folder is looked at whenever a pod is to be attached or the status is asked for, so that a new
conflist counts for the next pod.  One that cannot be used, or of which a plugin is not installed, is passed over for
the next one, and the status says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from cni import CNI, CNIError, ExecInvoker, NetworkConfList, versions
from cni.conf import fingerprint, load_dir
from cni.errors import UnsupportedVerb
from cni.strays import end_strays
from crishim.network.api import NetworkStatus, PodAttachment
from crishim.network.conflists import ConflistNetwork
from crishim.network.memory import NetworkMemory
from crishim.network.setup import NetworkSetup

log = logging.getLogger(__name__)

SEEN = "cni_seen"
"""Key in `NetworkMemory`: path of a network configuration that was once there."""
MISSING = "NetworkConfigMissing"
"""Reason of the status of a folder without any configuration."""
PASSED_OVER = "NetworkConfigPassedOver"
"""Reason of the status of a folder with a network that is used, and with configurations that cannot be."""

_STATUS_PERIOD = 10.0
"""Seconds between two questions for STATUS; each runs every plugin of the network once."""


class CniNetwork(ConflistNetwork):
    """Runs the CNI plugins that are installed."""

    name = "cni"

    def __init__(
        self,
        conf_dir: str,
        bin_dirs: Sequence[str],
        memory: NetworkMemory,
        *,
        timeout: float = 120.0,
        missing_hint: Callable[[], str] | None = None,
    ) -> None:
        """`conf_dir`: conflists.  `bin_dirs`: plugins.  `timeout`: seconds that one plugin may take for one verb.

        `missing_hint`: more words for the status of a folder without any configuration.
        """
        super().__init__(CNI(ExecInvoker(bin_dirs), timeout), memory)
        self._conf_dir = conf_dir
        self._missing_hint = missing_hint
        self._fingerprint: tuple[object, ...] | None = None
        self._usable: tuple[NetworkConfList, ...] = ()
        """Those that can be read, in order."""
        self._network: NetworkConfList | None = None
        """The one for new pods: the first of which all plugins are installed, or else the first."""
        self._unreadable: tuple[str, ...] = ()
        """What is wrong with files that cannot be used."""
        self._faults: tuple[str, ...] = ()
        """That, and what the networks lack that were passed over."""
        self._answers: dict[str, str] = {}
        """What the plugins of the present network last said to STATUS, by its text: "" is yes."""
        self._changed = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    @classmethod
    def from_setup(cls, setup: NetworkSetup) -> CniNetwork:
        """For the entry point group `crishim.networks`."""
        return cls(setup.conf_dir, setup.bin_dirs, setup.memory, timeout=setup.timeout, missing_hint=setup.missing_hint)

    def __repr__(self) -> str:
        return f"CniNetwork({self._conf_dir!r}, {self._network.name if self._network else 'no network'})"

    def status(self) -> NetworkStatus:
        network = self._current()
        faults = "; ".join(self._faults)
        if network is None:
            if faults:
                return NetworkStatus(False, "NetworkConfigInvalid", faults)
            hint = self._missing_hint() if self._missing_hint is not None else ""
            message = f"no network configuration in {self._conf_dir}"
            return NetworkStatus(False, MISSING, f"{message}: {hint}" if hint else message)
        if missing := self._cni.missing(network):
            also = f"; {faults}" if faults else ""
            return NetworkStatus(False, "PluginMissing", f"{network.path}: {missing}{also}")
        if self._asking is not None and versions.has_gc_and_status(network.cni_version):
            answer = self._answers.get(network.text)
            if answer is None:
                return NetworkStatus(False, "NetworkStatusPending", f"{network.path}: its plugins are being asked")
            if answer:
                return NetworkStatus(False, "NetworkStatusFalse", f"{network.path}: {answer}")
        if faults:
            return NetworkStatus(True, PASSED_OVER, f"{network.path} is used; {faults}")
        return NetworkStatus(ready=True)

    async def start(self) -> None:
        self._asking = asyncio.create_task(self._keep_asking(), name="CNI status")

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._asking
            self._asking = None

    async def _keep_asking(self) -> None:
        """Ask the plugins for their STATUS (CNI 1.1.0), now, whenever the network changes, and now and then."""
        while True:
            self._changed.clear()
            if (network := self._current()) is not None:
                self._answers = {network.text: await self._ask(network)}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STATUS_PERIOD):
                    await self._changed.wait()

    async def _ask(self, network: NetworkConfList) -> str:
        try:
            await self._cni.status(network)
        except UnsupportedVerb:
            return ""
        except CNIError as error:
            log.warning("network %s: %s", network.name, error)
            return str(error)
        return ""

    async def _end_strays(self, pod: PodAttachment) -> None:
        # ADD was begun and did not answer us: if a predecessor of this process ran it, it may still be at it.
        ended = await asyncio.to_thread(end_strays, pod.sandbox_id)
        if ended:
            log.warning("sandbox %s: %d processes of an unfinished attach were ended", pod.sandbox_id[:13], ended)

    def _current(self) -> NetworkConfList | None:
        """Return the network for new pods; reads the folder again when something in it has changed."""
        found = fingerprint(self._conf_dir)
        changed = found != self._fingerprint
        if changed:
            self._fingerprint = found
            self._reload()
        if changed or len(self._usable) > 1:  # plugins come and go without a change of the folder
            self._choose()
        return self._network

    def _reload(self) -> None:
        try:
            loaded = load_dir(self._conf_dir)
        except OSError as error:
            self._usable, self._unreadable = (), (f"{self._conf_dir} cannot be read: {error.strerror}",)
        else:
            self._usable, self._unreadable = loaded.networks, tuple(map(str, loaded.faults))
        self._network = None
        self._changed.set()

    def _choose(self) -> None:
        """Take the first network that can be run; with none of them the first, for the status to say what it lacks."""
        lacking: list[str] = []
        chosen = None
        for network in self._usable:
            missing = self._cni.missing(network)
            if not missing:
                chosen = network
                break
            lacking.append(f"{network.path}: {missing}")
        if chosen is None and self._usable:
            chosen, lacking = self._usable[0], lacking[1:]
        faults = (*self._unreadable, *lacking)
        for fault in faults:
            if fault not in self._faults:
                log.warning("network configuration is passed over: %s", fault)
        self._faults = faults
        if chosen is not None and chosen is not self._network:
            log.info("network %s (%s) is used for new pods", chosen.name, chosen.path)
            self._memory.put(SEEN, chosen.path)
            self._changed.set()
        self._network = chosen
