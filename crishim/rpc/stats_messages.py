"""Figures as CRI messages, encoded. A figure that there is none of is left unset, which is not the same as 0.

Encoding costs more than reading does. But most containers rest: what was told of one last time is kept, part by part,
and only the parts that have changed are encoded again. What always changes, the time, is added behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.message import Message

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.encode import encode
from crishim.rpc.framing import field, number
from crishim.runtime.objects import Container, Sandbox
from crishim.stats.figures import ContainerFigures, PodFigures
from crishim.stats.values import Interface, Layer, Memory, Pressure, Stall, Usage

_KEPT = 64
"""Objects that are kept beyond twice those of a list: one with a filter does not drop all others."""
_CONTAINER, _POD = pb.ContainerStats, pb.LinuxPodSandboxStats
_TIME = 1
"""Field of the time in every message that holds figures."""


class _Kept:
    """What was told of one object last time."""

    __slots__ = ("_parts", "attributes", "config")

    def __init__(self, config: object, attributes: bytes) -> None:
        self.config = config
        self.attributes = attributes
        self._parts: dict[int, tuple[Any, bytes]] = {}

    def part(self, at: int, value: Any, make: Callable[[Any], Message]) -> bytes:
        """`make(value)` encoded, from last time if the value that goes to field `at` is the same."""
        known = self._parts.get(at)
        if known is None or known[0] != value:
            known = self._parts[at] = (value, make(value).SerializeToString())
        return known[1]


class StatsMessages:
    """Encodes, and keeps what it told of the objects that it was asked for."""

    def __init__(self) -> None:
        self._containers: dict[str, _Kept] = {}
        self._pods: dict[str, _Kept] = {}

    def __len__(self) -> int:
        return len(self._containers) + len(self._pods)

    def containers(self, figures: Sequence[ContainerFigures]) -> list[bytes]:
        """A `ContainerStats` each."""
        if len(self._containers) > _KEPT + 2 * len(figures):
            self._containers.clear()  # most of them are gone
        return [self.container(one) for one in figures]

    def pods(self, figures: Sequence[PodFigures]) -> list[bytes]:
        """A `PodSandboxStats` each."""
        if len(self._pods) > _KEPT + 2 * len(figures):
            self._pods.clear()
        if len(self._containers) > _KEPT + 2 * sum(len(pod.containers) for pod in figures):
            self._containers.clear()
        return [self.pod(one) for one in figures]

    def container(self, figures: ContainerFigures) -> bytes:
        """One `ContainerStats`. Attributes and writable layer are always there."""
        container, usage = figures.container, figures.usage
        kept = _kept(self._containers, container, _container_attributes)
        layer = kept.part(_CONTAINER.WRITABLE_LAYER_FIELD_NUMBER, (figures.layer, figures.mountpoint), _layer)
        parts = [kept.attributes, field(_CONTAINER.WRITABLE_LAYER_FIELD_NUMBER, layer)]
        if usage is not None:
            parts += _usage(kept, usage, _CONTAINER)
            if (memory := usage.memory) is not None and memory.swap_usage is not None:
                swap = kept.part(
                    _CONTAINER.SWAP_FIELD_NUMBER, (memory.swap_usage, memory.swap_available), _swap
                ) + number(_TIME, usage.time)
                parts.append(field(_CONTAINER.SWAP_FIELD_NUMBER, swap))
        return b"".join(parts)

    def pod(self, figures: PodFigures) -> bytes:
        """One `PodSandboxStats`. `linux` is always there; `network` only with a default interface, which a kubelet
        takes for granted."""
        kept = _kept(self._pods, figures.sandbox, _pod_attributes)
        parts = [] if figures.usage is None else _usage(kept, figures.usage, _POD)
        if (network := figures.network) is not None:
            body = kept.part(_POD.NETWORK_FIELD_NUMBER, network.interfaces, _network) + number(_TIME, network.time)
            parts.append(field(_POD.NETWORK_FIELD_NUMBER, body))
        if figures.processes is not None:
            body = kept.part(_POD.PROCESS_FIELD_NUMBER, figures.processes, _processes) + number(_TIME, figures.time)
            parts.append(field(_POD.PROCESS_FIELD_NUMBER, body))
        parts += [field(_POD.CONTAINERS_FIELD_NUMBER, self.container(one)) for one in figures.containers]
        return kept.attributes + field(pb.PodSandboxStats.LINUX_FIELD_NUMBER, b"".join(parts))


def _kept(known: dict[str, _Kept], thing: Any, make: Callable[[Any], Message]) -> _Kept:
    """What is kept of a container or sandbox. Who it is only changes with its configuration."""
    config = thing.record.config
    kept = known.get(thing.id)
    if kept is None or kept.config is not config:
        attributes = field(_ATTRIBUTES, make(thing).SerializeToString())
        kept = known[thing.id] = _Kept(config, attributes)
    return kept


_ATTRIBUTES = 1
"""Field of the attributes, of containers and of pods."""


def _container_attributes(container: Container) -> pb.ContainerAttributes:
    config = container.record.config
    metadata = encode(config.metadata, pb.ContainerMetadata())
    return pb.ContainerAttributes(
        id=container.id, metadata=metadata, labels=config.labels, annotations=config.annotations
    )


def _pod_attributes(sandbox: Sandbox) -> pb.PodSandboxAttributes:
    config = sandbox.record.config
    metadata = encode(sandbox.metadata, pb.PodSandboxMetadata())
    return pb.PodSandboxAttributes(
        id=sandbox.id, metadata=metadata, labels=config.labels, annotations=config.annotations
    )


def _usage(kept: _Kept, usage: Usage, message: type[pb.ContainerStats | pb.LinuxPodSandboxStats]) -> list[bytes]:
    """What containers and pods have in common: processor, memory, and of io the pressure, which is all that is told."""
    time, parts = number(_TIME, usage.time), []
    if usage.cpu is not None:
        cpu = kept.part(message.CPU_FIELD_NUMBER, (usage.cpu, usage.nano_cores, usage.cpu_pressure), _cpu)
        parts.append(field(message.CPU_FIELD_NUMBER, cpu + time))
    if usage.memory is not None:
        memory = kept.part(message.MEMORY_FIELD_NUMBER, (usage.memory, usage.memory_pressure), _memory)
        parts.append(field(message.MEMORY_FIELD_NUMBER, memory + time))
    if usage.io_pressure is not None:
        io = kept.part(message.IO_FIELD_NUMBER, usage.io_pressure, _io)
        parts.append(field(message.IO_FIELD_NUMBER, io + time))
    return parts


def _cpu(figures: tuple[int, int | None, Pressure | None]) -> pb.CpuUsage:
    used, nano_cores, pressure = figures
    cpu = pb.CpuUsage(usage_core_nano_seconds=pb.UInt64Value(value=used))
    if nano_cores is not None:
        cpu.usage_nano_cores.value = nano_cores
    _put_pressure(pressure, cpu.psi)
    return cpu


def _memory(figures: tuple[Memory, Pressure | None]) -> pb.MemoryUsage:
    memory, pressure = figures
    message = pb.MemoryUsage()
    message.working_set_bytes.value = memory.working_set
    if (available := memory.available) is not None:
        message.available_bytes.value = available
    message.usage_bytes.value = memory.usage
    message.rss_bytes.value = memory.rss
    message.page_faults.value = memory.minor_page_faults
    message.major_page_faults.value = memory.major_page_faults
    _put_pressure(pressure, message.psi)
    return message


def _swap(figures: tuple[int, int | None]) -> pb.SwapUsage:
    used, available = figures
    swap = pb.SwapUsage(swap_usage_bytes=pb.UInt64Value(value=used))
    if available is not None:
        swap.swap_available_bytes.value = available
    return swap


def _io(pressure: Pressure) -> pb.IoUsage:
    io = pb.IoUsage()
    _put_pressure(pressure, io.psi)
    return io


def _layer(figures: tuple[Layer, str]) -> pb.FilesystemUsage:
    layer, mountpoint = figures
    return pb.FilesystemUsage(
        timestamp=layer.time,
        fs_id=pb.FilesystemIdentifier(mountpoint=mountpoint),
        used_bytes=pb.UInt64Value(value=layer.used_bytes),
        inodes_used=pb.UInt64Value(value=layer.inodes),
    )


def _processes(count: int) -> pb.ProcessUsage:
    return pb.ProcessUsage(process_count=pb.UInt64Value(value=count))


def _put_pressure(pressure: Pressure | None, psi: pb.PsiStats) -> None:
    if pressure is not None:
        _put_stall(pressure.some, psi.Some)
        if pressure.full is not None:
            _put_stall(pressure.full, psi.Full)


def _put_stall(stall: Stall, data: pb.PsiData) -> None:
    data.Total, data.Avg10, data.Avg60, data.Avg300 = stall.total, stall.avg10, stall.avg60, stall.avg300
    data.SetInParent()


def _network(interfaces: Sequence[Interface]) -> pb.NetworkUsage:
    """The first is the default one."""
    message = pb.NetworkUsage()
    _put_interface(interfaces[0], message.default_interface)
    for interface in interfaces[1:]:
        _put_interface(interface, message.interfaces.add())
    return message


def _put_interface(interface: Interface, message: pb.NetworkInterfaceUsage) -> None:
    message.name = interface.name
    message.rx_bytes.value = interface.rx_bytes
    message.rx_errors.value = interface.rx_errors
    message.tx_bytes.value = interface.tx_bytes
    message.tx_errors.value = interface.tx_errors
