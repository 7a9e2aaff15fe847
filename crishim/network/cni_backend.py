"""The backend `cni`: the plugins of the first usable conflist give pods their network.

The configuration folder is looked at whenever a pod is to be attached or the status is asked for, so that a new
conflist counts for the next pod.  Detach and check use the configuration and arguments in the pod's record, whatever
the folder holds by then.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cni import CNI, Attachment, CNIError, ExecInvoker, NetworkConfList, Result, parse_conflist, parse_result
from cni.conf import fingerprint, load_first
from cni.errors import UnsupportedVerb
from cni.strays import end_strays
from crishim.errors import InvalidArgument, NetworkFailed, NetworkNotReady
from crishim.model import PortMapping
from crishim.network import cni_args, netns
from crishim.network.api import Attached, NetworkStatus, PodAttachment, PodNetwork
from crishim.network.memory import NetworkMemory

log = logging.getLogger(__name__)

SEEN = "cni_seen"
"""Key in `NetworkMemory`: path of a network configuration that was once there."""
POD_CIDR = "pod_cidr"
"""Key in `NetworkMemory`: the last UpdateRuntimeConfig's ranges; a kubelet does not repeat them when we restart."""

_MISSING = "NetworkConfigMissing"
_SOME_PORT = (PortMapping(container_port=1, host_port=1),)
"""For a pod whose ports are not known any more."""


class CniNetwork(PodNetwork):
    """Runs CNI plugins.  Keeps nothing of pods; takes no lock while a plugin runs."""

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
        self._conf_dir = conf_dir
        self._memory = memory
        self._missing_hint = missing_hint
        self._cni = CNI(ExecInvoker(bin_dirs), timeout)
        self._fingerprint: tuple[object, ...] | None = None
        self._network: NetworkConfList | None = None
        self._status = NetworkStatus(ready=False)

    def __repr__(self) -> str:
        return f"CniNetwork({self._conf_dir!r}, {self._network.name if self._network else 'no network'})"

    def status(self) -> NetworkStatus:
        network = self._current()
        if network is not None and (missing := self._cni.missing(network)):
            return NetworkStatus(False, "PluginMissing", f"{network.path}: {missing}")
        if self._status.reason == _MISSING and self._missing_hint is not None:
            return replace(self._status, message=f"{self._status.message}: {self._missing_hint()}")
        return self._status

    def plan(self, pod: PodAttachment) -> Attached:
        network = self._current()
        if network is None:
            raise NetworkNotReady(f"{self._status.reason}: {self._status.message}", sandbox=pod.sandbox_id)
        cidrs = cni_args.parse_cidrs(self._memory.get(POD_CIDR))
        asked = cni_args.make_capability_args(pod, cidrs)
        declared = {name for plugin in network.plugins for name, on in plugin.get("capabilities", {}).items() if on}
        for name in sorted({"portMappings", "bandwidth"} & asked.keys() - declared):
            # Not refused: some providers learn these from the API server and declare nothing.
            log.info("network %s declares no capability %s, which pod %s uses", network.name, name, pod.sandbox_id[:13])
        args = {
            "args": cni_args.make_args(pod),
            "capabilityArgs": {name: value for name, value in asked.items() if name in declared},
        }
        return Attached(backend=self.name, config=network.text, args=json.dumps(args, separators=(",", ":")))

    async def attach(self, pod: PodAttachment, planned: Attached) -> Attached:
        try:
            network = parse_conflist(planned.config)
            result = await self._cni.add(network, _attachment(pod, planned, pod.netns_path))
        except CNIError as error:
            raise _failed("attached to", pod, error) from error
        ips = result.addresses(planned.interface)
        if not ips:
            raise NetworkFailed(
                f"network {network.name} gave pod {pod.namespace}/{pod.name} no address on {planned.interface}",
                sandbox=pod.sandbox_id,
            )
        return replace(planned, result=result.text, ips=ips)

    async def detach(self, pod: PodAttachment, attached: Attached | None) -> None:
        if attached is None:
            if self._current() is None:
                log.warning(
                    "sandbox %s: neither a record of its network nor a network configuration; nothing can be detached",
                    pod.sandbox_id[:13],
                )
                return
            # With the record the ports may be lost, too. portmap takes its rules away by the id, whatever the ports
            # are, but only for a pod that has any.
            attached = self._plan_for_detach(pod if pod.port_mappings else replace(pod, port_mappings=_SOME_PORT))
        if not attached.result:
            # ADD was begun and did not answer us: if a predecessor of this process ran it, it may still be at it.
            ended = await asyncio.to_thread(end_strays, pod.sandbox_id)
            if ended:
                log.warning("sandbox %s: %d processes of an unfinished attach were ended", pod.sandbox_id[:13], ended)
        path = pod.netns_path if netns.is_pinned(pod.netns_path) else ""
        try:
            network = parse_conflist(attached.config)
            await self._cni.delete(network, _attachment(pod, attached, path), _result(attached, network))
        except CNIError as error:
            raise _failed("detached from", pod, error) from error

    def _plan_for_detach(self, pod: PodAttachment) -> Attached:
        try:
            return self.plan(pod)
        except InvalidArgument as error:
            # Somebody else attached it who did not mind; it must be possible to stop it all the same.
            log.warning("sandbox %s is detached without what it asked: %s", pod.sandbox_id[:13], error)
            return self.plan(replace(pod, annotations={}, port_mappings=_SOME_PORT))

    async def check(self, pod: PodAttachment, attached: Attached) -> None:
        try:
            network = parse_conflist(attached.config)
            result = _result(attached, network)
            if result is None:
                raise NetworkFailed("it was never attached", sandbox=pod.sandbox_id)
            await self._cni.check(network, _attachment(pod, attached, pod.netns_path), result)
        except UnsupportedVerb as error:
            log.debug("%s", error)
        except CNIError as error:
            raise _failed("checked in", pod, error) from error

    async def gc(self, valid: Mapping[str, Attached]) -> None:
        networks = {network.name: network for network in self._networks(valid)}
        failures: list[CNIError] = []
        for network in networks.values():
            # A record of another network, or of none (an adopted pod), does no harm in the list; one missing would.
            keep = [
                (sandbox_id, attached.interface) for sandbox_id, attached in sorted(valid.items()) if attached.interface
            ]
            try:
                await self._cni.gc(network, keep)
            except UnsupportedVerb as error:
                log.debug("%s", error)
            except CNIError as error:
                failures.append(error)
        if failures:
            raise NetworkFailed(f"stale attachments cannot be released: {failures[0]}") from failures[0]

    def set_pod_cidr(self, cidr: str) -> None:
        cidrs = cni_args.parse_cidrs(cidr)
        if cidrs:
            self._memory.put(POD_CIDR, ",".join(cidrs))

    async def start(self) -> None:
        return

    async def close(self) -> None:
        return

    def _current(self) -> NetworkConfList | None:
        """Return the network for new pods; reads the folder again when something in it has changed."""
        found = fingerprint(self._conf_dir)
        if found != self._fingerprint:
            self._fingerprint = found
            self._reload()
        return self._network

    def _reload(self) -> None:
        try:
            self._network, faults = load_first(self._conf_dir)
            reasons = [str(fault) for fault in faults]
        except OSError as error:
            self._network, reasons = None, [f"{self._conf_dir} cannot be read: {error.strerror}"]
        for reason in reasons:
            log.warning("network configuration is passed over: %s", reason)
        if self._network is not None:
            log.info("network %s (%s) is used for new pods", self._network.name, self._network.path)
            self._memory.put(SEEN, self._network.path)
            self._status = NetworkStatus(ready=True)
        elif reasons:
            self._status = NetworkStatus(False, "NetworkConfigInvalid", "; ".join(reasons))
        else:
            self._status = NetworkStatus(False, _MISSING, f"no network configuration in {self._conf_dir}")

    def _networks(self, valid: Mapping[str, Attached]) -> list[NetworkConfList]:
        """Return the networks that attachments can be of; for one name the present configuration comes last."""
        networks = []
        for sandbox_id, attached in valid.items():
            if attached.backend == self.name:
                try:
                    networks.append(parse_conflist(attached.config))
                except CNIError as error:
                    log.warning("the network configuration in the record of sandbox %s: %s", sandbox_id[:13], error)
        current = self._current()
        return [*networks, current] if current else networks


def _attachment(pod: PodAttachment, attached: Attached, netns_path: str) -> Attachment:
    """Make CNI's parameters from the record: the same on every verb, in a later process too."""
    try:
        given = json.loads(attached.args)
        args, capability_args = given["args"], given["capabilityArgs"]
    except (ValueError, KeyError, TypeError) as error:
        raise NetworkFailed(
            f"the network arguments in the record are damaged: {error}", sandbox=pod.sandbox_id
        ) from error
    return Attachment(
        container_id=pod.sandbox_id,
        ifname=attached.interface,
        netns=netns_path,
        args=args,
        capability_args=capability_args,
    )


def _result(attached: Attached, network: NetworkConfList) -> Result | None:
    return parse_result(attached.result, network.cni_version) if attached.result else None


def _failed(what: str, pod: PodAttachment, error: CNIError) -> NetworkFailed:
    return NetworkFailed(
        f"pod {pod.namespace}/{pod.name} could not be {what} its network: {error}", sandbox=pod.sandbox_id
    )
