"""Samples as CRI messages. There are dozens for each container, so that what does not change is kept encoded.

A `Metric` is name, type, label values and value, in this order of fields; all but the value are the same each time, and
of containers at rest most values are, too.
"""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.framing import field, varint
from crishim.stats.catalogue import METRICS
from crishim.stats.meter import PodMetrics
from crishim.stats.samples import Group, Labels, Metered, Sample

_VALUE = varint(pb.Metric.VALUE_FIELD_NUMBER << 3 | 2)
_NUMBER = varint(pb.UInt64Value.VALUE_FIELD_NUMBER << 3)
_SMALL = [varint(value) for value in range(0x80)]
_ID = pb.PodSandboxMetrics.POD_SANDBOX_ID_FIELD_NUMBER
_POD = pb.PodSandboxMetrics.METRICS_FIELD_NUMBER
_CONTAINERS = pb.PodSandboxMetrics.CONTAINER_METRICS_FIELD_NUMBER
_CONTAINER_ID = pb.ContainerMetrics.CONTAINER_ID_FIELD_NUMBER
_CONTAINER = pb.ContainerMetrics.METRICS_FIELD_NUMBER


class _Told:
    """What was told of one group last time: its samples, each as it went over the wire, and all of them joined."""

    __slots__ = ("encoded", "group", "joined", "samples")

    def __init__(self) -> None:
        self.group: Group | None = None
        self.samples: list[Sample] = []
        self.encoded: list[bytes] = []
        self.joined = b""

    def again(self, group: Group, number: int, labels: Labels) -> bytes:
        """The group as it is now, each sample a field `number`."""
        if group == self.group:
            return self.joined
        samples, before, encoded = list(group.make(*group.figures)), self.samples, self.encoded
        # The same samples come in the same order each time but for those that are new, and most have their old value.
        same = min(len(samples), len(before))
        for place in range(same):
            if (sample := samples[place]) != (old := before[place]):
                encoded[place] = _again(encoded[place], old, sample) or _encode(number, labels, sample)
        del encoded[same:]
        encoded += [_encode(number, labels, sample) for sample in samples[same:]]
        self.group, self.samples, self.joined = group, samples, b"".join(encoded)
        return self.joined


class _Kept:
    """What was told of one container or pod last time: its groups."""

    __slots__ = ("labels", "told")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.told: list[_Told] = []


def make_descriptors() -> pb.ListMetricDescriptorsResponse:
    """The catalogue."""
    descriptors = (pb.MetricDescriptor(name=m.name, help=m.help, label_keys=m.label_keys) for m in METRICS.values())
    return pb.ListMetricDescriptorsResponse(descriptors=descriptors)


class MetricsEncoder:
    """Encodes, and remembers what it told of the containers and pods of the last time."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def encode(self, pods: list[PodMetrics]) -> list[bytes]:
        """A `PodSandboxMetrics` each."""
        kept = self._kept
        self._kept = {}  # what is not among them this time is forgotten
        return [self._pod(pod, kept) for pod in pods]

    def _pod(self, pod: PodMetrics, kept: dict[str, _Kept]) -> bytes:
        parts = [field(_ID, pod.pod.key.encode()), self._metrics(pod.pod, _POD, kept)]
        for container in pod.containers:
            body = field(_CONTAINER_ID, container.key.encode()) + self._metrics(container, _CONTAINER, kept)
            parts.append(field(_CONTAINERS, body))
        return b"".join(parts)

    def _metrics(self, metered: Metered, number: int, kept: dict[str, _Kept]) -> bytes:
        known = kept.get(metered.key)
        if known is None or known.labels != metered.labels:
            known = _Kept(metered.labels)
        self._kept[metered.key] = known
        told, groups, labels = known.told, metered.groups, metered.labels
        del told[len(groups) :]
        told += [_Told() for _ in groups[len(told) :]]
        return b"".join([one.again(group, number, labels) for one, group in zip(told, groups, strict=True)])


def _again(encoded: bytes, old: Sample, sample: Sample) -> bytes | None:
    """The same sample with a new value, if that needs as many bytes: all that stands before it is the same then."""
    if old[0] != sample[0] or old[2] != sample[2]:
        return None
    value, length = _value(sample[1]), len(_value(old[1]))
    return encoded[:-length] + value if len(value) == length else None


def _value(number: int) -> bytes:
    return _SMALL[number] if number < 0x80 else varint(number)


def _encode(number: int, labels: Labels, sample: Sample) -> bytes:
    """A metric as field `number`.

    The value is in a message of its own, and there even when it is 0 (CRI demands it).
    """
    name, figure, more = sample
    metric = METRICS[name]
    values = (*labels.values, *more)
    assert len(values) == len(metric.label_keys), f"{name} has another number of labels"
    kind = pb.COUNTER if metric.counter else pb.GAUGE
    head = pb.Metric(name=metric.name, metric_type=kind, label_values=values).SerializeToString()
    value = _value(figure)
    return field(number, b"%s%s%c%s%s" % (head, _VALUE, len(value) + 1, _NUMBER, value))
