"""Figures as CRI messages. A figure that there is none of is left unset, which is not the same as 0.

Who an object is never changes, and is kept as a message: to make it takes as long as all the figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.model import ContainerConfig, PodSandboxConfig
from crishim.rpc.encode import encode
from crishim.stats.figures import ContainerFigures, PodFigures
from crishim.stats.values import Interface, Memory, Network, Pressure, Stall, Usage

_KEPT = 64
"""Attributes that are kept beyond twice those of a list: one with a filter does not drop all others."""


class StatsMessages:
    """Makes messages, and keeps the attributes of those that it made some for."""

    def __init__(self) -> None:
        self._containers: dict[str, tuple[ContainerConfig, pb.ContainerAttributes]] = {}
        self._pods: dict[str, tuple[PodSandboxConfig, pb.PodSandboxAttributes]] = {}

    def __len__(self) -> int:
        return len(self._containers) + len(self._pods)

    def containers(self, figures: Sequence[ContainerFigures]) -> list[pb.ContainerStats]:
        """Several containers."""
        if len(self._containers) > _KEPT + 2 * len(figures):
            self._containers.clear()  # most of them are gone
        return [self.container(one) for one in figures]

    def pods(self, figures: Sequence[PodFigures]) -> list[pb.PodSandboxStats]:
        """Several pods."""
        if len(self._pods) > _KEPT + 2 * len(figures):
            self._pods.clear()
        if len(self._containers) > _KEPT + 2 * sum(len(pod.containers) for pod in figures):
            self._containers.clear()
        return [self.pod(one) for one in figures]

    def container(self, figures: ContainerFigures) -> pb.ContainerStats:
        """One container. Attributes and writable layer are always there."""
        container = figures.container
        config = container.record.config
        known = self._containers.get(container.id)
        if known is None or known[0] is not config:
            attributes = pb.ContainerAttributes(
                id=container.id,
                metadata=encode(config.metadata, pb.ContainerMetadata()),
                labels=config.labels,
                annotations=config.annotations,
            )
            known = self._containers[container.id] = (config, attributes)
        return _make_container_stats(figures, known[1])

    def pod(self, figures: PodFigures) -> pb.PodSandboxStats:
        """One pod. `linux` is always there; `network` only with a default interface, which a kubelet takes for
        granted."""
        sandbox = figures.sandbox
        config = sandbox.record.config
        known = self._pods.get(sandbox.id)
        if known is None or known[0] is not config:
            attributes = pb.PodSandboxAttributes(
                id=sandbox.id,
                metadata=encode(sandbox.metadata, pb.PodSandboxMetadata()),
                labels=config.labels,
                annotations=config.annotations,
            )
            known = self._pods[sandbox.id] = (config, attributes)
        stats = _make_pod_stats(figures, known[1])
        stats.linux.containers.extend(self.container(container) for container in figures.containers)
        return stats


def _make_container_stats(figures: ContainerFigures, attributes: pb.ContainerAttributes) -> pb.ContainerStats:
    layer, usage = figures.layer, figures.usage
    stats = pb.ContainerStats(
        attributes=attributes,
        writable_layer=pb.FilesystemUsage(
            timestamp=layer.time,
            fs_id=pb.FilesystemIdentifier(mountpoint=figures.mountpoint),
            used_bytes=pb.UInt64Value(value=layer.used_bytes),
            inodes_used=pb.UInt64Value(value=layer.inodes),
        ),
    )
    if usage is not None:
        _put_cpu(usage, stats.cpu)
        _put_memory(usage, stats.memory)
        if usage.memory is not None and usage.memory.swap_usage is not None:
            stats.swap.timestamp = usage.time
            stats.swap.swap_usage_bytes.value = usage.memory.swap_usage
            if (available := usage.memory.swap_available) is not None:
                stats.swap.swap_available_bytes.value = available
        _put_io(usage, stats.io)
    return stats


def _make_pod_stats(figures: PodFigures, attributes: pb.PodSandboxAttributes) -> pb.PodSandboxStats:
    usage = figures.usage
    stats = pb.PodSandboxStats(attributes=attributes)
    linux = stats.linux
    linux.SetInParent()
    if usage is not None:
        _put_cpu(usage, linux.cpu)
        _put_memory(usage, linux.memory)
        _put_io(usage, linux.io)
    if figures.network is not None:
        _put_network(figures.network, linux.network)
    if figures.processes is not None:
        linux.process.timestamp = figures.time
        linux.process.process_count.value = figures.processes
    return stats


def _put_cpu(usage: Usage, cpu: pb.CpuUsage) -> None:
    if usage.cpu is not None:
        cpu.timestamp = usage.time
        cpu.usage_core_nano_seconds.value = usage.cpu
        if usage.nano_cores is not None:
            cpu.usage_nano_cores.value = usage.nano_cores
        _put_pressure(usage.cpu_pressure, cpu.psi)


def _put_memory(usage: Usage, message: pb.MemoryUsage) -> None:
    memory: Memory | None = usage.memory
    if memory is None:
        return
    message.timestamp = usage.time
    message.working_set_bytes.value = memory.working_set
    if (available := memory.available) is not None:
        message.available_bytes.value = available
    message.usage_bytes.value = memory.usage
    message.rss_bytes.value = memory.rss
    message.page_faults.value = memory.minor_page_faults
    message.major_page_faults.value = memory.major_page_faults
    _put_pressure(usage.memory_pressure, message.psi)


def _put_io(usage: Usage, io: pb.IoUsage) -> None:
    """Pressure is all that it can tell."""
    if usage.io_pressure is not None:
        io.timestamp = usage.time
        _put_pressure(usage.io_pressure, io.psi)


def _put_pressure(pressure: Pressure | None, psi: pb.PsiStats) -> None:
    if pressure is not None:
        _put_stall(pressure.some, psi.Some)
        if pressure.full is not None:
            _put_stall(pressure.full, psi.Full)


def _put_stall(stall: Stall, data: pb.PsiData) -> None:
    data.Total, data.Avg10, data.Avg60, data.Avg300 = stall.total, stall.avg10, stall.avg60, stall.avg300
    data.SetInParent()


def _put_network(network: Network, message: pb.NetworkUsage) -> None:
    message.timestamp = network.time
    _put_interface(network.default, message.default_interface)
    for interface in network.others:
        _put_interface(interface, message.interfaces.add())


def _put_interface(interface: Interface, message: pb.NetworkInterfaceUsage) -> None:
    message.name = interface.name
    message.rx_bytes.value = interface.rx_bytes
    message.rx_errors.value = interface.rx_errors
    message.tx_bytes.value = interface.tx_bytes
    message.tx_errors.value = interface.tx_errors
