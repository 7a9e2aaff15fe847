"""What backends share whose networks are CNI conflists: `cni` and `embedded`.

Detach and check use the configuration and arguments in the pod's record, whatever the backend would use for a new pod.
"""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace

from cni import CNI, Attachment, CNIError, NetworkConfList, Result, parse_conflist, parse_result
from cni.errors import UnsupportedVerb
from crishim.errors import InvalidArgument, NetworkFailed, NetworkNotReady
from crishim.model import PortMapping
from crishim.network import cni_args, netns
from crishim.network.api import Attached, PodAttachment, PodNetwork
from crishim.network.memory import NetworkMemory

log = logging.getLogger(__name__)

POD_CIDR = "pod_cidr"
"""Key in `NetworkMemory`: the last UpdateRuntimeConfig's ranges; a kubelet does not repeat them when we restart."""

_SOME_PORT = (PortMapping(container_port=1, host_port=1),)
"""For a pod whose ports are not known any more."""


class ConflistNetwork(PodNetwork):
    """Runs a conflist's plugins.  Keeps nothing of pods; takes no lock while a plugin runs."""

    def __init__(self, cni: CNI, memory: NetworkMemory) -> None:
        self._cni = cni
        self._memory = memory

    @abstractmethod
    def _current(self) -> NetworkConfList | None:
        """Return the network for new pods; None where `status` tells why there is none."""

    async def _end_strays(self, pod: PodAttachment) -> None:
        """End what a predecessor of this process may still be doing for a pod whose attach was not completed.

        Raises CNIError when it cannot be ended.
        """

    def plan(self, pod: PodAttachment) -> Attached:
        return self._plan(pod)

    def _plan(self, pod: PodAttachment) -> Attached:
        """Plan with all plugins of the network."""
        network = self._current()
        if network is None:
            status = self.status()
            raise NetworkNotReady(f"{status.reason}: {status.message}", sandbox=pod.sandbox_id)
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
            result = await self._cni.add(network, make_attachment(pod, planned, pod.netns_path))
        except CNIError as error:
            raise self._refusal(pod, error) from error
        ips = result.addresses(planned.interface)
        if not ips:
            raise NetworkFailed(
                f"network {network.name} gave pod {pod.namespace}/{pod.name} no address on {planned.interface}",
                sandbox=pod.sandbox_id,
            )
        return replace(planned, result=result.text, ips=ips)

    def _refusal(self, pod: PodAttachment, error: CNIError) -> NetworkFailed:
        """Return the error for an attach that failed with `error`."""
        return _failed("attached to", pod, error)

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
        path = pod.netns_path if netns.is_pinned(pod.netns_path) else ""
        try:
            if not attached.result:
                await self._end_strays(pod)
            network = parse_conflist(attached.config)
            result = read_result(attached, network)
            try:
                await self._cni.delete(network, make_attachment(pod, attached, path), result)
            except CNIError as error:
                if result is not None or not await self._deleted_anew(pod, network, path):
                    raise
                log.warning("sandbox %s: detached by what its network is now: %s", pod.sandbox_id[:13], error)
        except CNIError as error:
            raise _failed("detached from", pod, error) from error

    async def _deleted_anew(self, pod: PodAttachment, recorded: NetworkConfList, path: str) -> bool:
        """Whether the network's present configuration could detach a pod that the recorded one never attached.

        One that cannot work (it names a plugin that nobody has) would otherwise keep its pods for ever, also when it
        was put right.  It must be the same network: whose addresses are another's, does not know the pod.
        """
        current = self._current()
        if current is None or current.text == recorded.text or current.name != recorded.name:
            return False
        planned = self._plan_for_detach(pod)
        try:
            await self._cni.delete(current, make_attachment(pod, planned, path), None)
        except CNIError as error:
            log.warning("sandbox %s: nor by what its network is now: %s", pod.sandbox_id[:13], error)
            return False
        return True

    def _plan_for_detach(self, pod: PodAttachment) -> Attached:
        try:
            return self._plan(pod)
        except InvalidArgument as error:
            # Somebody else attached it who did not mind; it must be possible to stop it all the same.
            log.warning("sandbox %s is detached without what it asked: %s", pod.sandbox_id[:13], error)
            return self._plan(replace(pod, annotations={}, port_mappings=_SOME_PORT))

    async def check(self, pod: PodAttachment, attached: Attached) -> None:
        try:
            network = parse_conflist(attached.config)
            result = read_result(attached, network)
            if result is None:
                raise NetworkFailed("it was never attached", sandbox=pod.sandbox_id)
            await self._cni.check(network, make_attachment(pod, attached, pod.netns_path), result)
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


def make_attachment(pod: PodAttachment, attached: Attached, netns_path: str) -> Attachment:
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


def read_result(attached: Attached, network: NetworkConfList) -> Result | None:
    return parse_result(attached.result, network.cni_version) if attached.result else None


def _failed(what: str, pod: PodAttachment, error: CNIError) -> NetworkFailed:
    return NetworkFailed(
        f"pod {pod.namespace}/{pod.name} could not be {what} its network: {error}", sandbox=pod.sandbox_id
    )
