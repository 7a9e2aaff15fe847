"""Statistics of pods on fakes: whom they tell of, what fails nobody else, and what goes on only while somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.errors import AmbiguousId, ContainerNotFound, EngineUnavailable, SandboxNotFound
from crishim.model import ContainerStatsFilter, ImageSpec, LinuxPodSandboxConfig, PodSandboxStatsFilter
from crishim.rpc import metrics as metrics_rpc
from crishim.rpc import stats as rpc
from crishim.rpc.served import serve_from
from crishim.stats.kernel import Kernel
from crishim.stats.layers import FRESH, IDLE, Layers
from crishim.stats.place import Place
from crishim.stats.sampler import EVERY
from crishim.stats.service import Stats
from crishim.stats.values import Detail, Interface, Memory, Network, Processes, Usage, Vanished
from tests.usecase.runtime.world import HOST_NETWORK, World

ALL = ContainerStatsFilter()
PODS = PodSandboxStatsFilter()


def loop_time() -> int:
    """Virtual nanoseconds."""
    return int(asyncio.get_running_loop().time() * 1e9)


@dataclass
class FakeKernel(Kernel):
    """Tells the same of everybody but of those who are gone, or of whom it tells nonsense."""

    world: World
    gone: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    reads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__("/nowhere", loop_time)

    def place(self, object_id: str, pid: int) -> Place:
        if object_id in self.gone or not pid:
            raise Vanished(object_id)
        return Place(path=f"/pods/x/{object_id}", folders={"unified": object_id})

    def usage(self, place: Place) -> Usage:
        object_id = place.path.rpartition("/")[2]
        if object_id in self.broken:
            raise ValueError("not a number")
        self.reads.append(object_id)
        memory = Memory(usage=100, inactive_file=30, rss=50, page_faults=9, major_page_faults=2)
        return Usage(time=self.now(), cpu=self.now() // 4, memory=memory)

    counts = usage

    def cpu(self, place: Place) -> int:
        self.reads.append("cpu")
        return self.now() // 4

    def count(self, place: Place) -> int:
        return 3

    def detail(self, place: Place) -> Detail:
        return Detail(oom_kills=1)

    def processes(self, place: Place, pid: int) -> Processes:
        return Processes(3, 4, 5, 1024)

    def network(self, object_id: str, pid: int) -> Network | None:
        if object_id in self.broken:
            raise ValueError("not a number")
        return Network(self.now(), Interface("eth0", 1, 2, 3, 4, 5, 6, 7, 8))


@pytest.fixture
def kernel(world: World) -> FakeKernel:
    return FakeKernel(world)


@pytest.fixture
async def stats(world: World, kernel: FakeKernel) -> AsyncIterator[Stats]:
    stats = Stats(world.rt, kernel=kernel)
    yield stats
    await stats.close()
    assert repr(stats).count("at rest") == 2


async def ids(stats: Stats, wanted: ContainerStatsFilter = ALL) -> list[str]:
    return [figures.container.id for figures in await stats.containers(wanted)]


async def test_no_engine_call_is_made(world: World, stats: Stats) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.engine.calls.clear()
    assert await ids(stats) == [container]
    await stats.container(container)
    await stats.pod(sandbox)
    await stats.pods(PODS)
    assert world.engine.calls == {}


async def test_one_that_vanishes_is_left_out(world: World, stats: Stats, kernel: FakeKernel) -> None:
    sandbox = await world.run()
    stays, goes = [await world.run_container(sandbox, name=name) for name in ("stays", "goes")]
    kernel.gone.add(goes)
    assert await ids(stats) == [stays]
    (pod,) = await stats.pods(PODS)
    assert [c.container.id for c in pod.containers] == [stays]
    assert (await stats.container(goes)).usage is None


async def test_one_bad_object_never_fails_a_list(
    world: World, stats: Stats, kernel: FakeKernel, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, other = await world.run(), await world.run(name="other")
    good, bad = await world.run_container(sandbox), await world.run_container(other)
    kernel.broken.add(bad)
    assert await ids(stats) == [good]
    assert [pod.sandbox.id for pod in await stats.pods(PODS)] == [sandbox, other]
    kernel.broken.add(other)
    assert [pod.sandbox.id for pod in await stats.pods(PODS)] == [sandbox]
    assert "cannot be read" in caplog.text


async def test_those_that_do_not_run_are_not_listed(world: World, stats: Stats) -> None:
    sandbox = await world.run()
    created = await world.create(sandbox)
    assert await ids(stats) == []
    assert (await stats.container(created)).usage is None
    await world.stop(sandbox)
    assert await stats.pods(PODS) == []
    stopped = await stats.pod(sandbox)
    assert (stopped.usage, stopped.network, stopped.processes) == (None, None, None)


async def test_the_sum_and_the_pods_own_cgroup(world: World, stats: Stats, kernel: FakeKernel) -> None:
    plain = await world.run()
    await world.run_container(plain)
    figures = await stats.pod(plain)
    assert figures.usage is not None
    assert figures.usage.memory is not None
    assert (figures.usage.memory.usage, figures.processes, figures.place) == (200, 6, None)
    own = await world.run(name="own", linux=LinuxPodSandboxConfig(cgroup_parent="/pods/x"))
    figures = await stats.pod(own)
    assert figures.place is not None
    assert (figures.place.path, figures.processes) == ("/pods/x", 3)
    # The sandbox's process was killed, and its containers live on for a while.
    container = await world.run_container(own)
    kernel.gone.add(own)
    assert (await stats.pod(own)).place == figures.place
    kernel.gone.add(container)
    assert (await stats.pod(own)).usage is None


async def test_ids_and_filters(world: World, stats: Stats) -> None:
    first, second = await world.run(labels={"app": "x"}), await world.run(name="second", labels={"app": "y"})
    a = await world.run_container(first, labels={"k": "1"})
    b = await world.run_container(second, labels={"k": "1"})
    assert await ids(stats, ContainerStatsFilter(label_selector={"k": "1"})) == [a, b]
    assert await ids(stats, ContainerStatsFilter(label_selector={"k": "1"}, pod_sandbox_id=second)) == [b]
    assert await ids(stats, ContainerStatsFilter(id=a[:20])) == [a]
    assert await ids(stats, ContainerStatsFilter(id=a, pod_sandbox_id=second)) == []
    assert [p.sandbox.id for p in await stats.pods(PodSandboxStatsFilter(label_selector={"app": "y"}))] == [second]
    assert [p.sandbox.id for p in await stats.pods(PodSandboxStatsFilter(id=first, label_selector={"app": "y"}))] == []
    for missing in ("", "none"):
        with pytest.raises(ContainerNotFound):
            await stats.container(missing)
        with pytest.raises(SandboxNotFound):
            await stats.pod(missing)
    with pytest.raises((AmbiguousId, SandboxNotFound)):
        await stats.pod(a)


async def test_what_goes_over_the_wire(world: World, stats: Stats) -> None:
    served = serve_from(world.rt, stats=stats)
    sandbox = await world.run(labels={"app": "x"}, annotations={"note": "y"})
    container = await world.run_container(sandbox)
    await asyncio.sleep(1)
    host = await world.run(name="host", linux=HOST_NETWORK)
    answer = pb.ListPodSandboxStatsResponse.FromString(await rpc.pods(served, pb.ListPodSandboxStatsRequest()))
    told = {item.attributes.id: item for item in answer.stats}
    assert told[sandbox].attributes.metadata.uid == "uid-web"
    assert (told[sandbox].attributes.labels["app"], told[sandbox].attributes.annotations["note"]) == ("x", "y")
    assert told[sandbox].linux.network.default_interface.name == "eth0"
    assert not told[host].linux.HasField("network")
    assert told[host].HasField("linux")
    listed = await rpc.containers(served, pb.ListContainerStatsRequest())
    (item,) = pb.ListContainerStatsResponse.FromString(listed).stats
    assert item.attributes.id == container
    assert (item.memory.working_set_bytes.value, item.memory.page_faults.value) == (70, 7)
    assert not item.memory.HasField("available_bytes")
    assert item.writable_layer.HasField("used_bytes")
    assert item.writable_layer.timestamp > 0
    assert Path(item.writable_layer.fs_id.mountpoint).is_dir()
    assert not item.HasField("swap")
    assert not item.HasField("io")
    assert not item.cpu.HasField("psi")
    asked = await rpc.container(served, pb.ContainerStatsRequest(container_id=container))
    assert pb.ContainerStatsResponse.FromString(asked).stats.attributes == item.attributes
    asked = await rpc.pod(served, pb.PodSandboxStatsRequest(pod_sandbox_id=sandbox))
    pod = pb.PodSandboxStatsResponse.FromString(asked)
    assert [c.attributes.id for c in pod.stats.linux.containers] == [container]


async def test_metrics(world: World, stats: Stats, kernel: FakeKernel) -> None:
    served = serve_from(world.rt, stats=stats)
    own = LinuxPodSandboxConfig(cgroup_parent="/pods/x")
    plain, sandbox = await world.run(), await world.run(name="own", linux=own)
    container = await world.run_container(sandbox, image=ImageSpec(image="busybox", user_specified_image="busybox:1"))
    gone = await world.run_container(plain, name="gone")
    kernel.gone.add(gone)
    kernel.broken.add(plain)
    world.engine.calls.clear()
    answer = pb.ListPodSandboxMetricsResponse.FromString(
        await metrics_rpc.pods(served, pb.ListPodSandboxMetricsRequest())
    )
    assert world.engine.calls == {}
    described = await metrics_rpc.descriptors(served, pb.ListMetricDescriptorsRequest())
    keys = {d.name: list(d.label_keys) for d in described.descriptors}
    (pod,) = answer.pod_metrics  # the other one cannot be read, and is no reason to tell nothing
    assert pod.pod_sandbox_id == sandbox
    (of_container,) = pod.container_metrics
    assert of_container.container_id == container
    told = {}
    for metric in (*pod.metrics, *of_container.metrics):
        labels = dict(zip(keys[metric.name], metric.label_values, strict=True))
        assert (labels["namespace"], labels["pod"]) == ("default", "own")
        told[metric.name, labels["container"]] = (metric.value.value, labels)
    value, labels = told["container_memory_working_set_bytes", "main"]
    assert (value, labels["image"], labels["id"]) == (70, "busybox:1", f"/pods/x/{container}")
    assert labels["name"].startswith("k8s_main_own_default_")
    value, labels = told["container_network_receive_bytes_total", ""]
    assert (value, labels["interface"], labels["id"]) == (1, "eth0", "/pods/x")
    assert told["container_memory_working_set_bytes", ""][0] == 70, "the pod's own cgroup"
    stream = await metrics_rpc.stream(served, pb.StreamPodSandboxMetricsRequest())
    (message,) = [pb.StreamPodSandboxMetricsResponse.FromString(chunk) async for chunk in stream]
    assert [item.pod_sandbox_id for item in message.pod_sandbox_metrics] == [sandbox]
    kernel.broken.clear()
    kernel.reads.clear()
    assert [len(m.containers) for m in await stats.metrics()] == [0, 1]
    assert plain not in kernel.reads, "what is only part of a sum that nobody is told"
    await world.run(name="own", attempt=1, linux=own)
    told_of = [m.pod.labels.id for m in await stats.metrics()]
    assert len(set(told_of)) == 3, "no two samples are the same"


async def test_who_an_object_is_is_kept_as_long_as_it_is_listed(
    world: World, stats: Stats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crishim.rpc.stats_messages._KEPT", 0)
    served = serve_from(world.rt, stats=stats)
    request = pb.ListPodSandboxStatsRequest()
    sandbox = await world.run(labels={"a": "b"})
    container = await world.run_container(sandbox, labels={"c": "d"})
    for _ in range(2):
        (pod,) = pb.ListPodSandboxStatsResponse.FromString(await rpc.pods(served, request)).stats
        assert (pod.attributes.id, dict(pod.attributes.labels)) == (sandbox, {"a": "b"})
        (told,) = pod.linux.containers
        assert (told.attributes.id, dict(told.attributes.labels)) == (container, {"c": "d"})
        assert len(served.figures) == 2
    for number in range(4):
        await world.remove(sandbox)
        sandbox = await world.run(name=f"next-{number}")
        await world.run_container(sandbox)
        await rpc.pods(served, request)
    assert len(served.figures) <= 6, "those that are gone are forgotten now and then"


async def test_nothing_is_told_before_the_engine_was_read(world: World, stats: Stats) -> None:
    await world.node.close()
    world.engine.go_down()
    await world.start(connected=False)
    served = serve_from(world.rt)
    with pytest.raises(EngineUnavailable):
        await rpc.containers(served, pb.ListContainerStatsRequest())
    with pytest.raises(EngineUnavailable):
        await rpc.pods(served, pb.ListPodSandboxStatsRequest())
    await served.close()
    world.engine.come_back()
    assert await world.rt.link.wait_connected(6)


async def test_samples_are_taken_while_somebody_asks(world: World, stats: Stats, kernel: FakeKernel) -> None:
    container = await world.run_container(await world.run())
    (figures,) = await stats.containers(ALL)
    assert figures.usage is not None
    assert figures.usage.nano_cores is None
    await asyncio.sleep(EVERY * 1.5)
    assert kernel.reads == [container, "cpu"], "read, and sampled once"
    (figures,) = await stats.containers(ALL)
    assert figures.usage is not None
    assert figures.usage.nano_cores == 250_000_000
    await asyncio.sleep(600)
    taken = len(kernel.reads)
    assert taken < 12
    await asyncio.sleep(600)
    assert len(kernel.reads) == taken, "nobody asks any more"


async def test_an_asker_makes_samples_unnecessary(world: World, stats: Stats, kernel: FakeKernel) -> None:
    await world.run_container(await world.run())
    for _ in range(10):
        await stats.containers(ALL)
        await asyncio.sleep(EVERY / 2)
    assert "cpu" not in kernel.reads


async def test_what_is_gone_is_forgotten(world: World, stats: Stats) -> None:
    sandbox = await world.run()
    await world.run_container(sandbox)
    await stats.pods(PODS)
    await world.stop(sandbox)
    await world.remove(sandbox)
    assert "0 known" in repr(stats)
    await asyncio.sleep(EVERY * 1.5)
    assert repr(stats).count("at rest") == 2, "nothing runs"
    await stats.pods(PODS)
    assert repr(stats).count("at rest") == 2


async def test_layers_are_counted_again_within_the_budget(world: World, tmp_path: Path) -> None:
    layer = tmp_path / "layer" / "diff"
    layer.mkdir(parents=True)
    container_id = await world.run_container(await world.run())
    container = world.rt.index.container(container_id)
    assert container is not None
    container = replace(container, live=replace(container.live, merged_dir=str(layer.parent / "merged")))
    layers = Layers(50, proc="/nowhere", now=loop_time)
    first = layers.look(container)
    assert (first.inodes, first.complete) == (1, True)
    layers.want([container])
    (layer / "file").write_bytes(b"x" * 9000)
    await asyncio.sleep(FRESH / 2e9)
    assert layers.look(container) == first, "fresh enough, and it says of when"
    layers.want([container])
    await asyncio.sleep(FRESH / 1.5e9)
    second = layers.look(container)
    assert second.inodes == 2
    assert second.used_bytes >= first.used_bytes + 9000
    assert second.time > first.time
    await asyncio.sleep(IDLE * 3)
    assert repr(layers) == "<Layers 1 known, at rest>"
    layers.keep({container_id})
    assert "1 known" in repr(layers)
    layers.keep(())
    assert "0 known" in repr(layers)
    await layers.close()


async def test_a_large_layer_is_first_told_at_least(world: World, tmp_path: Path) -> None:
    layer = tmp_path / "layer" / "diff"
    for number in range(60):
        (layer / f"d{number}").mkdir(parents=True)
        for file in range(20):
            (layer / f"d{number}" / f"f{file}").touch()
    container_id = await world.run_container(await world.run())
    container = world.rt.index.container(container_id)
    assert container is not None
    container = replace(container, live=replace(container.live, merged_dir=str(layer.parent / "merged")))
    layers = Layers(50, proc="/nowhere")
    first = layers.look(container)
    assert not first.complete
    assert 0 < first.inodes < 1261
    layers.want([container])
    await asyncio.sleep(5)
    assert (layers.look(container).inodes, layers.look(container).complete) == (1261, True)
    await layers.close()
