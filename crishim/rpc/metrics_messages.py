"""Samples as CRI messages. There are dozens for each container, so that what does not change is kept encoded.

A `Metric` is name, type, label values and value, in this order of fields; all but the value are the same each time.
"""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.framing import field, varint
from crishim.stats.catalogue import METRICS
from crishim.stats.meter import PodMetrics
from crishim.stats.samples import Labels, Metered

_VALUE = varint(pb.Metric.VALUE_FIELD_NUMBER << 3 | 2)
_NUMBER = varint(pb.UInt64Value.VALUE_FIELD_NUMBER << 3)
_SMALL = [varint(value) for value in range(0x80)]
_ID = pb.PodSandboxMetrics.POD_SANDBOX_ID_FIELD_NUMBER
_POD = pb.PodSandboxMetrics.METRICS_FIELD_NUMBER
_CONTAINERS = pb.PodSandboxMetrics.CONTAINER_METRICS_FIELD_NUMBER
_CONTAINER_ID = pb.ContainerMetrics.CONTAINER_ID_FIELD_NUMBER
_CONTAINER = pb.ContainerMetrics.METRICS_FIELD_NUMBER

Kept = dict[tuple[str, tuple[str, ...], int], bytes]
"""Metric, further labels and length of the value, to all that stands before the value."""


def make_descriptors() -> pb.ListMetricDescriptorsResponse:
    """The catalogue."""
    descriptors = (pb.MetricDescriptor(name=m.name, help=m.help, label_keys=m.label_keys) for m in METRICS.values())
    return pb.ListMetricDescriptorsResponse(descriptors=descriptors)


class MetricsEncoder:
    """Encodes, and remembers what does not change of the containers and pods of the last time."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Labels, Kept]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def encode(self, pods: list[PodMetrics]) -> list[bytes]:
        """A `PodSandboxMetrics` each."""
        kept = self._kept
        self._kept = {}  # what is not among them this time is forgotten
        return [self._pod(pod, kept) for pod in pods]

    def _pod(self, pod: PodMetrics, kept: dict[str, tuple[Labels, Kept]]) -> bytes:
        parts = [field(_ID, pod.pod.key.encode()), self._metrics(pod.pod, _POD, kept)]
        for container in pod.containers:
            body = field(_CONTAINER_ID, container.key.encode()) + self._metrics(container, _CONTAINER, kept)
            parts.append(field(_CONTAINERS, body))
        return b"".join(parts)

    def _metrics(self, metered: Metered, number: int, kept: dict[str, tuple[Labels, Kept]]) -> bytes:
        known = kept.get(metered.key)
        if known is None or known[0] != metered.labels:
            known = (metered.labels, {})
        self._kept[metered.key] = known
        heads, parts = known[1], []
        for sample in metered.samples:
            metric, figure, more = sample
            value = _SMALL[figure] if figure < 0x80 else varint(figure)
            key = (metric, more, len(value))
            head = heads.get(key)
            if head is None:
                head = heads[key] = _head(number, metered.labels, metric, more, len(value))
            parts.append(head)
            parts.append(value)
        return b"".join(parts)


def _head(number: int, labels: Labels, name: str, more: tuple[str, ...], length: int) -> bytes:
    """A metric as field `number`, up to a value of `length` bytes.

    The value is in a message of its own, and there even when it is 0 (CRI demands it).
    """
    metric = METRICS[name]
    values = (*labels.values, *more)
    assert len(values) == len(metric.label_keys), f"{name} has another number of labels"
    kind = pb.COUNTER if metric.counter else pb.GAUGE
    head = pb.Metric(name=metric.name, metric_type=kind, label_values=values).SerializeToString()
    head += b"%s%c%s" % (_VALUE, length + 1, _NUMBER)
    return field(number, head + bytes(length))[:-length]
