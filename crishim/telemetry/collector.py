"""The sources' numbers as Prometheus metrics, made when somebody asks. Runs on the event loop, as it reads what
lives there.

Names begin with `crishim_`; what they mean is their help. Nothing here counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    UnknownMetricFamily,
)

from crishim.telemetry.durations import Operations
from crishim.telemetry.sources import Sources

_LOG_COUNTERS = {
    "restarts": ("log_writer_restarts_total", "Processes that write logs and died."),
    "read_bytes": ("log_read_bytes_total", "Bytes of the engine's log files that were taken into containers' logs."),
    "written_bytes": ("log_written_bytes_total", "Bytes that were written to containers' logs."),
    "lost_bytes": ("log_lost_bytes_total", "Bytes of logs, at least, that the engine deleted before they were read."),
    "lost_times": ("log_losses_total", "How often the engine deleted a file of a log before it was read."),
    "damaged_lines": ("log_damaged_lines_total", "Lines in the engine's log files that are none of the engine's."),
    "full_disk": ("log_full_disk_total", "How often a log could not be written to the end for want of room."),
    "repeated": ("log_repeated_total", "How often lines may be in a log twice, as its file was changed by others."),
    "late_lines": ("log_late_lines_total", "Lines of logs that were written after their container's end was told."),
    "exits_before_log": ("log_late_ends_total", "Ends of containers that were told before their logs were complete."),
}
_LOG_GAUGES = {
    "logs": ("log_files", "Logs that are written."),
    "lag_bytes": ("log_lag_bytes", "Bytes in the engine's log files that are not in the containers' logs yet."),
}
_LOG_NO_FIGURES = frozenset({"pid"})


def collect(sources: Sources) -> Iterator[Metric]:
    """All metrics of the server's own work."""
    yield InfoMetricFamily("crishim", "What this server is.", {"version": sources.version})
    yield from _calls(sources)
    yield from _engine(sources)
    yield from _network(sources)
    yield from _objects(sources)
    yield from _events(sources)
    yield from _logs(sources.runtime.logs.state())
    yield from _queues(sources)
    lags = sources.counted.loop.lags
    text = "How much later than planned a timer of the event loop came: so long, every caller waits."
    yield HistogramMetricFamily("crishim_event_loop_lag_seconds", text, lags.buckets(), lags.seconds)


def _calls(sources: Sources) -> Iterator[Metric]:
    calls = sources.counted.calls
    text = "Duration of the CRI calls that have ended, waits for the engine included; of a stream, all of it."
    yield _histogram("rpc_duration_seconds", text, "rpc", calls.operations)
    yield _failures("rpc_errors_total", "CRI calls that failed, by the kind of failure.", "rpc", calls.operations)
    own = CounterMetricFamily("crishim_rpc_own_seconds_total", "The same without waits for the engine.", labels=["rpc"])
    for rpc, seconds in calls.own_seconds.items():
        own.add_metric([rpc], seconds)
    yield own
    under_way = GaugeMetricFamily("crishim_rpc_under_way", "CRI calls that have not ended yet.", labels=["rpc"])
    for rpc, count in sources.under_way.items():
        under_way.add_metric([rpc], count)
    yield under_way


def _engine(sources: Sources) -> Iterator[Metric]:
    engine, link = sources.counted.engine, sources.runtime.link
    text = "Duration of calls to the engine, until their answer or, of a stream, until its beginning."
    yield _histogram("engine_call_duration_seconds", text, "call", engine)
    yield _failures("engine_call_errors_total", "Calls to the engine that failed, by kind.", "call", engine)
    yield GaugeMetricFamily("crishim_engine_up", "1 while the engine is connected and read.", int(link.error is None))
    yield CounterMetricFamily(
        "crishim_engine_event_stream_reconnects_total",
        "How often the engine's event stream was opened again and everything was read anew.",
        max(link.connections - 1, 0),
    )
    yield CounterMetricFamily(
        "crishim_engine_outages_total", "How often the engine went away after it was there.", link.losses
    )


def _network(sources: Sources) -> Iterator[Metric]:
    network = sources.counted.network
    text = "Duration of operations on pods' networks, plugins included."
    yield _histogram("network_operation_duration_seconds", text, "operation", network)
    text = "Operations on pods' networks that failed, by kind."
    yield _failures("network_operation_errors_total", text, "operation", network)
    ready = sources.runtime.network.status().ready
    yield GaugeMetricFamily("crishim_network_ready", "1 while new pods can be attached to the network.", int(ready))
    yield CounterMetricFamily(
        "crishim_undo_failures_total",
        "Undoings of failed calls that failed themselves, and are left for StopPodSandbox and RemovePodSandbox.",
        sources.runtime.background.undo_failures,
    )


def _objects(sources: Sources) -> Iterator[Metric]:
    index = sources.runtime.index
    sandboxes = Counter(sandbox.state.name.removeprefix("SANDBOX_") for sandbox in index.sandboxes())
    containers = Counter(container.state.name.removeprefix("CONTAINER_") for container in index.containers())
    for noun, states in (("sandboxes", sandboxes), ("containers", containers)):
        family = GaugeMetricFamily(f"crishim_{noun}", f"Pod {noun} by state.".replace("Pod c", "C"), labels=["state"])
        for state, count in sorted(states.items()):
            family.add_metric([state], count)
        yield family


def _events(sources: Sources) -> Iterator[Metric]:
    backlogs = [listener.backlog for listener in sources.events.listeners]
    yield GaugeMetricFamily("crishim_events_listeners", "Streams of GetContainerEvents.", len(backlogs))
    text = "Events that listeners have not read yet, all together."
    yield GaugeMetricFamily("crishim_events_unread", text, sum(count for count, _ in backlogs))
    text = "The same in bytes."
    yield GaugeMetricFamily("crishim_events_unread_bytes", text, sum(size for _, size in backlogs))
    text = "Events that slow listeners were not told of, as newer ones had made them old or their stream was cut."
    yield CounterMetricFamily("crishim_events_dropped_total", text, sources.events.dropped)


def _logs(state: Mapping[str, object]) -> Iterator[Metric]:
    for name, value in state.items():
        if not isinstance(value, int | float) or name in _LOG_NO_FIGURES:
            continue
        if name in _LOG_COUNTERS:
            known, text = _LOG_COUNTERS[name]
            yield CounterMetricFamily(f"crishim_{known}", text, value)
        elif name in _LOG_GAUGES:
            known, text = _LOG_GAUGES[name]
            yield GaugeMetricFamily(f"crishim_{known}", text, value)
        else:
            text = f"{name.replace('_', ' ')}, as the writer of logs tells it in Status."
            yield UnknownMetricFamily(f"crishim_log_{name}", text, value)


def _queues(sources: Sources) -> Iterator[Metric]:
    runtime = sources.runtime
    depths = {
        "objects to inspect": runtime.watch.waiting,
        "background tasks": len(runtime.background),
        "locks held or waited for": len(runtime.locks),
        "work waiting for a thread": sources.threads(),
    }
    family = GaugeMetricFamily("crishim_queue_depth", "What waits or is under way inside the server.", labels=["queue"])
    for queue, depth in depths.items():
        family.add_metric([queue.replace(" ", "_")], depth)
    yield family


def _histogram(name: str, text: str, label: str, operations: Operations) -> Metric:
    family = HistogramMetricFamily(f"crishim_{name}", text, labels=[label])
    for operation, durations in sorted(operations.durations.items()):
        family.add_metric([operation], durations.buckets(), durations.seconds)
    return family


def _failures(name: str, text: str, label: str, operations: Operations) -> Metric:
    family = CounterMetricFamily(f"crishim_{name}", text, labels=[label, "kind"])
    for (operation, kind), count in sorted(operations.failures.items()):
        family.add_metric([operation, kind], count)
    return family
