"""What container logs cost: the writer alone on spools written beforehand, and the server while logs pass."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from crishim.engine.simulated.spool import encode
from crishim.engine.values import LogSpool
from crishim.logs.api import LogPlaces
from crishim.logs.process import LogWriterProcess
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import container, pod

_LINE = b"2026-01-01 12:00:00 INFO  an ordinary line of an ordinary program, as long as lines usually are: %8d\n"
_TICKS = os.sysconf("SC_CLK_TCK")
_SPOOL = LogSpool()


def _lines(count: int) -> bytes:
    return b"".join(_LINE % number for number in range(count))


def measure_writer(rounds: int = 5) -> list[Figure]:
    """A full spool of one container, converted by a writer's process."""
    speeds, costs, small = [], [], 100_000
    output = _lines(small)
    now = iter(range(1_700_000_000 * 10**9, 1 << 62, 1001))
    block = b"".join(encode(output, "stdout", lambda: next(now)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(rounds):
            spool = folder / f"spool-{number}" / "c-json.log"
            spool.parent.mkdir()
            for older in (".3", ".2", ".1", ""):
                spool.with_name(spool.name + older).write_bytes(block)
            seconds, cpu = asyncio.run(_convert(folder, spool, f"c{number}"))
            speeds.append(4 * small / seconds / 1000)
            costs.append(cpu * 1000 / (4 * len(output) / 1e6))
    return [
        summarize("log writer, 1,000 lines a second", speeds, unit="", note="lines of 103 bytes, at least 300"),
        summarize("log writer, CPU per MB", costs, unit="ms", must=18.0, note="written beforehand"),
    ]


async def _convert(folder: Path, spool: Path, container_id: str) -> tuple[float, float]:
    writer = LogWriterProcess(folder / "lock")
    places = LogPlaces(container_id=container_id, spool=str(spool), folder=str(folder / "logs"), name=container_id)
    await writer.begin(places, None, new=True)
    began, before = time.monotonic(), _cpu(writer.pid)
    await writer.complete(container_id)
    seconds, cpu = time.monotonic() - began, _cpu(writer.pid) - before
    await writer.close()
    assert (folder / "logs" / container_id).stat().st_size > 400_000 * 100
    return seconds, cpu


def _cpu(*pids: int) -> float:
    """Seconds of processor time that processes have used."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def _family(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [pid, *(int(child) for task in tasks for child in (task / "children").read_text().split())]


def measure_passing(served: Served, image: str, spools: Path, megabytes: float, seconds: float = 8.0) -> list[Figure]:
    """Status calls while so many megabytes of lines a second are written to the spool of one container.

    `spools`: the folder of the simulated engine's containers; writing there is what an engine does.
    """
    client = served.client
    made = next(_containers(served, image, 1))
    request = cri.ContainerStatusRequest(container_id=made)
    log = Path(client.ContainerStatus(request).status.log_path)
    stop = threading.Event()
    written = [0]
    feeder = threading.Thread(target=_feed, args=(spools / made / f"{made}-json.log", megabytes, stop, written))
    cpu = _cpu(*_family(served.pid))
    began = time.monotonic()
    feeder.start()
    samples = []
    while time.monotonic() - began < seconds:
        at = time.perf_counter()
        client.ContainerStatus(request)
        samples.append((time.perf_counter() - at) * 1000)
        time.sleep(0.005)
    stop.set()
    feeder.join()
    # The calls cost, too; their share is measured without logs.
    logs_cpu = _cpu(*_family(served.pid)) - cpu
    rate = written[0] / 1e6 / (time.monotonic() - began)
    calls = _cpu_of_calls(served, request, len(samples))
    client.StopContainer(cri.StopContainerRequest(container_id=made))
    assert log.stat().st_size > written[0], "the log is complete"
    cost = (logs_cpu - calls) * 1000 / (written[0] / 1e6)
    return [
        summarize("ContainerStatus while logs pass", samples, must=3.0, note=f"{rate:.0f} MB a second"),
        summarize("logs that pass, server CPU per MB", [cost], unit="ms", must=18.0),
    ]


def _cpu_of_calls(served: Served, request: cri.ContainerStatusRequest, count: int) -> float:
    before = _cpu(*_family(served.pid))
    for _ in range(count):
        served.client.ContainerStatus(request)
        time.sleep(0.005)
    return _cpu(*_family(served.pid)) - before


def _feed(spool: Path, megabytes: float, stop: threading.Event, written: list[int]) -> None:
    """Write lines at a steady pace, as an engine does, and rename the file when it is full."""
    from crishim.engine.simulated.spool import rotate

    lines = 1000
    output = _lines(lines)
    now = iter(range(1_700_000_000 * 10**9, 1 << 62, 1001))
    block = b"".join(encode(output, "stdout", lambda: next(now)))
    pause, due, size = len(output) / (megabytes * 1e6), time.monotonic(), 0
    while not stop.is_set():
        if size > _SPOOL.max_size:
            rotate(spool, _SPOOL.max_files)
            size = 0
        with spool.open("ab", buffering=0) as file:
            size += file.write(block)
        written[0] += len(output)
        due += pause
        time.sleep(max(0.0, due - time.monotonic()))


def measure_idle(served: Served, image: str, count: int = 500) -> list[Figure]:
    """Containers that run and say nothing: memory and descriptors of the writer, processor time of all."""
    first = list(_containers(served, image, 1))
    writer = _family(served.pid)[1]
    memory, descriptors = _rss(writer), len(os.listdir(f"/proc/{writer}/fd"))
    rest = list(_containers(served, image, count, first=1))
    time.sleep(3)
    grown, opened = (_rss(writer) - memory) / len(rest), len(os.listdir(f"/proc/{writer}/fd")) - descriptors
    before = _cpu(writer)
    time.sleep(5)
    used = _cpu(writer) - before
    assert len(first) + len(rest) == count + 1
    return [
        summarize("idle logs, memory each", [grown], unit="KB", must=10.0, note=f"{count} containers"),
        summarize("idle logs, descriptors each", [opened / len(rest)], unit="", must=1.0),
        summarize("idle logs, CPU of the writer in 5 s", [used * 1000], unit="ms", note="demanded: 0"),
    ]


def _rss(pid: int) -> float:
    """KB."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return float(line.split()[1])


def _containers(served: Served, image: str, count: int, first: int = 0) -> Iterator[str]:
    """Start containers with logs, ten to a pod."""
    client = served.client
    logs = served.timeline.parent / "logs"
    sandbox, config = "", pod(0)
    for number in range(first, first + count):
        if not sandbox or number % 10 == 0:
            config = pod(700_000 + number)
            config.log_directory = str(logs / str(number // 10))
            sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
        wanted = container(image)
        wanted.metadata.attempt = number
        wanted.log_path = f"main/{number}.log"
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)
        made = client.CreateContainer(request).container_id
        client.StartContainer(cri.StartContainerRequest(container_id=made))
        yield made


def measure_latency(served: Served, image: str, folder: Path, rounds: int = 200) -> Figure:
    """From a print in a container on a real engine to the line in its log, on a machine that does nothing else."""
    client = served.client
    folder.mkdir()
    os.mkfifo(folder / "fifo")
    config = pod(800_000)
    config.log_directory = str(folder / "logs")
    sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
    wanted = container(image)
    wanted.command[:] = ["sh", "-c", "while read line; do echo $line; done < /words/fifo"]
    wanted.mounts.add(container_path="/words", host_path=str(folder))
    wanted.log_path = "main.log"
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)
    made = client.CreateContainer(request).container_id
    client.StartContainer(cri.StartContainerRequest(container_id=made))
    samples = []
    with (folder / "fifo").open("wb", buffering=0) as fifo, (folder / "logs" / "main.log").open("rb") as log:
        for number in range(rounds):
            time.sleep(0.05)
            began = time.perf_counter()
            fifo.write(b"word %d\n" % number)
            while not log.read():
                time.sleep(0.0002)
            samples.append((time.perf_counter() - began) * 1000)
    client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    return summarize("from print to the line in the log", samples, must=10.0)
