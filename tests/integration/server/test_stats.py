"""Statistics against the kernel's own files, on the real engine, and of loads whose size is known.

With CRISHIM_RECORD=FILE it also writes what those files hold to FILE, for the unit tests (tests/data/README.md).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env import record
from tests.env.cni import CniDirs
from tests.env.engine import TestEngine
from tests.integration.server.pods import SLEEP, Pod, linux, make_container, make_pod, pid_of, pod_linux
from tests.integration.server.residue import assert_nothing_left
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine
T = TypeVar("T")
MIB = 1 << 20
CGROUPS = Path("/sys/fs/cgroup")
V1 = (CGROUPS / "memory").is_dir()
only_v1 = pytest.mark.skipif(not V1, reason="this machine has cgroup version 2: tests/vm/test_stats.py")


@pytest.fixture
def world(new_server: Callable[..., CrishimServer], engine: TestEngine, bridged: CniDirs) -> Iterator[CrishimServer]:
    """A server with a network, and nothing left of its pods."""
    server = new_server(cni=bridged)
    server.start()
    yield server
    server.remove_all()
    assert_nothing_left(server, engine.api)


@pytest.fixture
def pod_cgroup() -> Iterator[str]:
    """Where a kubelet would put a pod; like a kubelet, it takes away what the engine leaves of it."""
    yield "/kubepods/burstable/pod77"
    for hierarchy in CGROUPS.iterdir() if V1 else (CGROUPS,):
        for left in ("kubepods/burstable/pod77", "kubepods/burstable", "kubepods"):
            if (hierarchy / left).is_dir():
                (hierarchy / left).rmdir()


def container_stats(server: CrishimServer, container_id: str) -> pb.ContainerStats:
    request = pb.ContainerStatsRequest(container_id=container_id)
    stats: pb.ContainerStats = server.client.ContainerStats(request, timeout=CALL).stats
    return stats


def listed(server: CrishimServer, **wanted: object) -> dict[str, pb.ContainerStats]:
    chosen = pb.ContainerStatsFilter(**wanted)  # type: ignore[arg-type]
    answer = server.client.ListContainerStats(pb.ListContainerStatsRequest(filter=chosen), timeout=CALL)
    return {stats.attributes.id: stats for stats in answer.stats}


def pod_stats(server: CrishimServer, sandbox_id: str) -> pb.PodSandboxStats:
    request = pb.PodSandboxStatsRequest(pod_sandbox_id=sandbox_id)
    stats: pb.PodSandboxStats = server.client.PodSandboxStats(request, timeout=CALL).stats
    return stats


def listed_pods(server: CrishimServer, **wanted: object) -> dict[str, pb.PodSandboxStats]:
    chosen = pb.PodSandboxStatsFilter(**wanted)  # type: ignore[arg-type]
    answer = server.client.ListPodSandboxStats(pb.ListPodSandboxStatsRequest(filter=chosen), timeout=CALL)
    return {stats.attributes.id: stats for stats in answer.stats}


def folder(pid: int, controller: str) -> Path:
    """Where the kernel says that a process is."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return CGROUPS / controller / path.lstrip("/")
    raise AssertionError(f"{controller} of {pid}")


def number(path: Path) -> int:
    return int(path.read_text())


def table(path: Path) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in path.read_text().splitlines())}


def wait_printed(pod: Pod, container_id: str, word: str) -> None:
    """Until the container has printed this word."""
    log = Path(pod.server.logs, pod.config.metadata.name)
    until(lambda: any(word in path.read_text() for path in log.iterdir()), f"{word} of {container_id[:13]}")


def agreeing(compare: Callable[[], T]) -> T:
    """What `compare` gives, tried again while it fails: between two readings the kernel may settle a cgroup's debts."""
    for _ in range(20):
        with suppress(AssertionError):
            return compare()
    return compare()


@only_v1
def test_figures_are_the_kernels_own(pod_cgroup: str, world: CrishimServer, engine: TestEngine) -> None:
    pod = Pod(world, make_pod(world, linux=pod_linux(cgroup_parent=pod_cgroup)))
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=64 * MIB)
    script = "dd if=/dev/zero of=/written bs=1M count=8 2>/dev/null; echo done; exec sleep 100000"
    container = pod.start(make_container(command=["sh", "-c", script], linux=linux(resources=resources)))
    wait_printed(pod, container, "done")
    pid = pid_of(engine.api, container)
    until(lambda: "sleep" in Path(f"/proc/{pid}/cmdline").read_text(), "sleep")
    memory, cpu = folder(pid, "memory"), folder(pid, "cpuacct")

    def container_agrees() -> pb.ContainerStats:
        before = number(cpu / "cpuacct.usage")
        stats = container_stats(world, container)
        assert before <= stats.cpu.usage_core_nano_seconds.value <= number(cpu / "cpuacct.usage")
        stat, usage = table(memory / "memory.stat"), number(memory / "memory.usage_in_bytes")
        assert stats.memory.usage_bytes.value == usage
        assert stats.memory.working_set_bytes.value == usage - stat["total_inactive_file"]
        assert stat["total_inactive_file"] >= 8 * MIB
        assert stats.memory.available_bytes.value == 64 * MIB - stats.memory.working_set_bytes.value
        assert stats.memory.rss_bytes.value == stat["total_rss"]
        assert stats.memory.page_faults.value == stat["total_pgfault"] - stat["total_pgmajfault"]
        assert stats.memory.major_page_faults.value == stat["total_pgmajfault"]
        if (memory / "memory.memsw.usage_in_bytes").exists():
            assert stats.swap.swap_usage_bytes.value == number(memory / "memory.memsw.usage_in_bytes") - usage
            assert (stats.swap.HasField("swap_available_bytes"), stats.swap.swap_available_bytes.value) == (True, 0)
        return stats

    stats = agreeing(container_agrees)
    assert stats.attributes.metadata.name == "main"
    assert stats.writable_layer.fs_id.mountpoint
    assert Path(stats.writable_layer.fs_id.mountpoint).is_dir()
    assert 8 * MIB <= stats.writable_layer.used_bytes.value < 9 * MIB
    assert stats.writable_layer.inodes_used.value >= 1
    assert min(stats.cpu.timestamp, stats.memory.timestamp, stats.writable_layer.timestamp) > 0

    # The pod's own cgroup, which holds the sandbox, too.
    above = memory.parent
    assert above.name == "pod77"

    def pod_agrees() -> pb.LinuxPodSandboxStats:
        told = pod_stats(world, pod.id).linux
        assert told.memory.usage_bytes.value == number(above / "memory.usage_in_bytes")
        return told

    told = agreeing(pod_agrees)
    assert told.process.process_count.value == 2
    assert [c.attributes.id for c in told.containers] == [container]
    assert not told.memory.HasField("available_bytes"), "the pod has no limit"
    if file := os.environ.get(record.VARIABLE):
        Path("/tmp/dump.py").write_text(record.DUMP)
        ids = {"sandbox": pod.id, "container": container}
        pids = {name: pid_of(engine.api, made) for name, made in ids.items()}
        record.write_recording(file, _shell, pids, ids, [f"{CGROUPS}/*{pod_cgroup}"])


def _shell(command: str) -> str:
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


@only_v1
def test_a_pod_without_a_cgroup_is_the_sum_of_what_is_in_it(world: CrishimServer, engine: TestEngine) -> None:
    node = linux(namespace_options=pb.NamespaceOption(pid=pb.NODE))  # all of the node's processes are seen, not counted
    pod = Pod(world, make_pod(world, linux=pod_linux(namespace_options=pb.NamespaceOption(pid=pb.NODE))))
    containers = [
        pod.start(make_container(name, command=["sleep", "100000"], linux=asked))
        for name, asked in (("one", node), ("two", linux()))
    ]
    members = [folder(pid_of(engine.api, i), "memory") for i in (pod.id, *containers)]

    def agrees() -> pb.LinuxPodSandboxStats:
        told = pod_stats(world, pod.id).linux
        assert told.memory.usage_bytes.value == sum(number(path / "memory.usage_in_bytes") for path in members)
        return told

    told = agreeing(agrees)
    assert told.process.process_count.value == 3
    assert told.cpu.usage_core_nano_seconds.value > 0
    assert {c.attributes.id for c in told.containers} == set(containers)


def test_network_of_every_interface(world: CrishimServer, engine: TestEngine) -> None:
    pod = Pod(world)
    pid = pid_of(engine.api, pod.id)
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    subprocess.run([*inside, "ip", "link", "add", "extra", "type", "veth", "peer", "name", "more"], check=True)
    subprocess.run([*inside, "ip", "link", "set", "extra", "up"], check=True)
    receiver = pod.start(make_container("r", command=["sh", "-c", "nc -l -p 9 >/dev/null; echo received; sleep 9999"]))
    address = pod.status().network.ip
    until(lambda: subprocess.run([*inside, "ss", "-ltnH"], capture_output=True, check=True).stdout, "a listener")
    before = pod_stats(world, pod.id).linux.network
    with socket.create_connection((address, 9)) as connection:
        connection.sendall(bytes(20_000_000))
    wait_printed(pod, receiver, "received")
    between = pod_stats(world, pod.id).linux.network
    sender = pod.start(make_container("s", command=["sh", "-c", "head -c 20000000 /dev/zero | nc -l -p 9"]))
    until(lambda: subprocess.run([*inside, "ss", "-ltnH"], capture_output=True, check=True).stdout, "a listener")
    with socket.create_connection((address, 9)) as connection:
        sent = 0
        while sent < 20_000_000 and (piece := connection.recv(1 << 20)):
            sent += len(piece)
    pod.ended(sender)
    after = pod_stats(world, pod.id).linux.network
    assert (after.default_interface.name, sorted(i.name for i in after.interfaces)) == ("eth0", ["extra", "more"])
    received = between.default_interface.rx_bytes.value - before.default_interface.rx_bytes.value
    assert 20_000_000 <= received <= 21_000_000
    assert sent == 20_000_000
    # busybox's nc writes blocks of 1 KiB, each of which may become a packet with 66 bytes of headers.
    transmitted = after.default_interface.tx_bytes.value - between.default_interface.tx_bytes.value
    assert sent <= transmitted <= 1.05 * sent * (1 + 66 / 1024)
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    counters = next(line.split(":")[1].split() for line in lines if "eth0" in line)
    assert after.default_interface.tx_bytes.value == int(counters[8])
    assert after.timestamp > before.timestamp > 0


def test_a_pod_on_the_hosts_network_has_none_of_its_own(world: CrishimServer) -> None:
    host = Pod(world, make_pod(world, linux=pod_linux(namespace_options=pb.NamespaceOption(network=pb.NODE))))
    stats = pod_stats(world, host.id)
    assert stats.HasField("linux")
    assert not stats.linux.HasField("network")


@only_v1
def test_loads_of_known_size(world: CrishimServer, engine: TestEngine, scaled: Callable[[int], int]) -> None:
    """One core for so many seconds, 100 MB held, 50 MB written, 200 MB read through the page cache."""
    pod = Pod(world)
    spinner = pod.start(make_container("spin", command=["sh", "-c", "while :; do :; done"]))
    # Read from a file of its own through the page cache, after writing it: cache, not working set.
    script = (
        "dd if=/dev/zero of=/f bs=1M count=50 2>/dev/null; cat /f /f /f /f >/dev/null; echo written; exec sleep 9999"
    )
    writer = pod.start(make_container("write", command=["sh", "-c", script]))
    # A block is read into memory as a whole, and stays there while nobody reads the pipe.
    hold = "dd if=/dev/zero bs=100000000 count=1 2>/dev/null | sleep 9999"
    holder = pod.start(make_container("hold", command=["sh", "-c", hold]))

    until(lambda: container_stats(world, spinner).cpu.HasField("usage_nano_cores"), "a second sample")
    until(lambda: container_stats(world, holder).memory.rss_bytes.value >= 100_000_000, "all is held")
    held = container_stats(world, holder)
    assert held.memory.rss_bytes.value == pytest.approx(100_000_000, rel=0.05)
    assert held.memory.working_set_bytes.value == pytest.approx(100_000_000, rel=0.05)
    wait_printed(pod, writer, "written")
    wrote = container_stats(world, writer)
    assert wrote.memory.usage_bytes.value == pytest.approx(50 * MIB, rel=0.05), "read four times, held once"
    assert wrote.memory.rss_bytes.value < 5 * MIB, "the page cache is not the container's own memory"
    until(
        lambda: container_stats(world, writer).writable_layer.used_bytes.value == pytest.approx(50 * MIB, rel=0.05),
        "the layer's size, counted again",
        90,
    )
    # What the scheduler gave to the one process that spins, however long that took on a busy machine.
    spinning = pid_of(engine.api, spinner)
    schedule = Path(f"/proc/{spinning}/schedstat")
    until(lambda: int(schedule.read_text().split()[0]) >= scaled(5) * 10**9, "a core's seconds", 90)
    os.kill(spinning, signal.SIGSTOP)
    until(lambda: Path(f"/proc/{spinning}/stat").read_text().rpartition(")")[2].split()[0] == "T", "it stands still")
    spun = container_stats(world, spinner).cpu.usage_core_nano_seconds.value
    assert spun == pytest.approx(int(schedule.read_text().split()[0]), rel=0.05)
    assert spun == number(folder(spinning, "cpuacct") / "cpuacct.usage")


def test_lists_and_filters(world: CrishimServer) -> None:
    first, second = Pod(world), Pod(world)
    a = first.start(make_container("a", labels={"app": "x", "tier": "1"}))
    b = first.start(make_container("b", labels={"app": "x", "tier": "2"}))
    c = second.start(make_container("c", labels={"app": "x", "tier": "1"}))
    created = second.create(make_container("d", labels={"app": "x"}))
    assert set(listed(world)) == {a, b, c}
    assert set(listed(world, id=a[:12])) == {a}
    assert set(listed(world, pod_sandbox_id=first.id)) == {a, b}
    assert set(listed(world, label_selector={"app": "x", "tier": "1"})) == {a, c}
    assert set(listed(world, pod_sandbox_id=first.id, label_selector={"tier": "1"})) == {a}
    assert set(listed(world, id=a, pod_sandbox_id=second.id)) == set()
    assert set(listed_pods(world)) == {first.id, second.id}
    name = first.config.metadata.name
    assert set(listed_pods(world, label_selector={"app": name})) == {first.id}
    assert set(listed_pods(world, id=second.id, label_selector={"app": name})) == set()
    for stats in listed_pods(world).values():
        assert stats.HasField("linux")
        assert stats.attributes.metadata.uid

    at_rest = container_stats(world, created)
    assert at_rest.attributes.metadata.name == "d"
    assert at_rest.writable_layer.HasField("used_bytes")
    assert at_rest.writable_layer.timestamp > 0
    assert not at_rest.HasField("cpu")
    assert not at_rest.HasField("memory")

    second.stop()
    assert set(listed(world)) == {a, b}
    assert set(listed_pods(world)) == {first.id}
    stopped = pod_stats(world, second.id)
    assert stopped.HasField("linux")
    assert not stopped.linux.HasField("network")
    assert container_stats(world, c).writable_layer.HasField("used_bytes")


@pytest.mark.parametrize("missing", ["", "ffff"])
def test_what_is_not_there_is_not_found(server: CrishimServer, missing: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        pod_stats(server, missing)
    assert code(caught.value) is grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as caught:
        container_stats(server, missing)
    assert code(caught.value) is grpc.StatusCode.NOT_FOUND


def test_containers_that_go_while_they_are_listed(world: CrishimServer, engine: TestEngine) -> None:
    """Trap 32: one that vanished must not fail the list, nor a streamed one, nor what was there all the time."""
    pod = Pod(world)
    stays = pod.start(make_container("stays"))
    for number_ in range(5):
        goes = pod.start(make_container(f"goes-{number_}", command=SLEEP))
        engine.api.call("DELETE", f"/containers/{goes}", {"force": "1"})
        assert stays in listed(world)
        assert pod.id in listed_pods(world)
        for rpc, item in (("StreamContainerStats", "container_stats"), ("StreamContainers", "containers")):
            things = [
                thing for message in getattr(world.client, rpc)(b"", timeout=CALL) for thing in getattr(message, item)
            ]
            ids = [thing.attributes.id if rpc == "StreamContainerStats" else thing.id for thing in things]
            assert ids.count(stays) == 1
            assert len(ids) == len(set(ids))
        (message,) = world.client.StreamPodSandboxMetrics(b"", timeout=CALL)
        assert [metrics.pod_sandbox_id for metrics in message.pod_sandbox_metrics] == [pod.id]
