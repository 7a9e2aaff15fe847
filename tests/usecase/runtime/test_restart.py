"""A server that starts finds all there is: from checkpoints, and where these are lost, from the engine's labels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crishim.checkpoint.memory import MemoryStore
from crishim.checkpoint.record import Phase
from crishim.engine.simulated import Fail, Hang
from crishim.engine.values import ContainerSpec
from crishim.errors import EngineError, EngineTimeout, NameReserved
from crishim.model import ContainerMetadata, KeyValue, NamespaceMode, PodSandboxMetadata
from crishim.runtime import labels
from tests.usecase.runtime.world import HOST_NETWORK, World

EACH_CARRIER = True

STRANGE = {
    "annotation.x": "label",
    labels.TYPE: "container",
    labels.SANDBOX_ID: "nobody",
    labels.LOG_PATH: "/etc/passwd",
    labels.CONFIG: "{}",
    "io.kubernetes.pod.name": "other",
    "": "empty",
}


async def lose_records(world: World) -> None:
    """Start again without any record, and with the addresses still in the pods' namespaces."""
    await world.node.close()
    for sandbox in world.rt.index.sandboxes():
        if sandbox.id in world.network.ips:
            world.namespaces.ips[sandbox.pid] = (world.network.ips[sandbox.id],)
    world.store = MemoryStore()
    await world.start()


async def test_everything_is_as_before(world: World) -> None:
    pods = [await world.run(name=name) for name in ("a", "b", "c")]
    running = await world.run_container(pods[0], envs=(KeyValue(key="K", value="secret"),))
    ended = await world.run_container(pods[1], command=("sh", "-c", "exit 3"))
    await world.create(pods[0], name="created")
    await world.stop(pods[2])
    await world.quiet()
    states, calls = world.states(), world.engine.calls["create"]
    await world.restart()
    assert world.states() == states
    assert world.rt.index.need_container(ended).exit_code == 3
    assert world.rt.index.need_container(running).record.config.envs == (KeyValue(key="K", value="secret"),)
    assert world.rt.index.need_container(running).log_path == str(world.folder / "logs" / "a" / "main-0.log")
    assert world.engine.calls["create"] == calls
    assert world.network.adds.total() == 3


async def test_an_attachment_is_given_back_as_it_was_made(world: World) -> None:
    sandbox = await world.run(annotations={"a": "b"})
    await world.restart()
    await world.stop(sandbox)
    assert (world.network.held, world.network.violations) == ({}, [])


@pytest.mark.parametrize("damage", ["lost", "corrupt", "truncated", "of the future"])
async def test_a_bad_record_is_made_again_from_the_labels(world: World, damage: str) -> None:
    sandbox = await world.run(labels=STRANGE | {"app": "web"}, annotations={"annotation.y": "1", labels.TYPE: "2"})
    container = await world.run_container(sandbox, labels=STRANGE, annotations={"k": "v"})
    other = await world.run(name="other")
    found = world.rt.index.need_sandbox(sandbox)
    data = world.store._records[sandbox]
    world.namespaces.ips[found.pid] = found.ips
    bad = {
        "corrupt": b"\0" * 40,
        "truncated": data[:-30],
        "of the future": data.replace(b'"version":1', b'"version":9'),
    }
    await world.node.close()
    if damage == "lost":
        del world.store._records[sandbox]
    else:
        world.store.damage(sandbox, bad[damage])
    await world.start()
    assert world.states() == {sandbox: "READY", other: "READY", container: "RUNNING"}
    adopted = world.rt.index.need_sandbox(sandbox)
    assert adopted.record.config == found.record.config
    assert (adopted.ips, adopted.namespaces) == (found.ips, found.namespaces)
    taken = world.rt.index.need_container(container).record.config
    assert (taken.labels, taken.annotations) == (STRANGE, {"k": "v"})
    await world.check_consistent()
    await world.stop(sandbox)
    assert world.network.dels[sandbox] == 1


async def test_a_lost_store(world: World) -> None:
    web = await world.run(name="web")
    host = await world.run(name="host", linux=HOST_NETWORK)
    stopped = await world.run(name="stopped")
    await world.stop(stopped)
    await lose_records(world)
    assert world.states() == {web: "READY", host: "READY", stopped: "NOTREADY"}
    assert world.rt.index.need_sandbox(host).namespaces.network is NamespaceMode.NODE
    assert world.rt.index.need_sandbox(host).record.network is None
    await world.check_consistent()


async def test_a_running_sandbox_without_addresses_was_never_attached(world: World) -> None:
    sandbox = await world.run()
    await world.node.close()
    world.store = MemoryStore()
    await world.start()
    assert world.state(sandbox) == "NOTREADY"


@pytest.mark.pause
async def test_containers_whose_sandbox_is_lost_are_listed_and_removable(world: World) -> None:
    pod_labels = {"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u"}
    sandbox = await world.run()
    by_label = await world.run_container(sandbox, labels=pod_labels)
    by_name = await world.create(sandbox, name="second")
    other = await world.run(name="other")
    by_name_alone = await world.run_container(other)
    await world.node.close()
    world.store = MemoryStore()
    world.engine.vanish(sandbox)
    world.engine.vanish(other)
    await world.start()
    assert world.states() == {
        sandbox: "NOTREADY",
        other: "NOTREADY",
        by_label: "RUNNING",
        by_name: "CREATED",
        by_name_alone: "RUNNING",
    }
    lost = world.rt.index.need_sandbox(sandbox)
    assert lost.metadata == PodSandboxMetadata(name="web", namespace="ns", uid="u")
    assert lost.record.config.labels == pod_labels
    assert lost.record.created_at > 0
    assert world.rt.index.need_sandbox(other).metadata.name == "other"
    await world.check_consistent()
    await world.stop(sandbox)
    assert world.state(by_label) == "EXITED"
    assert world.network.dels[sandbox] == 1


async def test_a_container_of_nobody_does_not_end_the_start(world: World) -> None:
    sandbox = await world.run()
    await world.node.close()
    for number, spoiled in enumerate(({labels.TYPE: "container"}, {labels.TYPE: "podsandbox"}, {labels.TYPE: "what"})):
        await world.engine.create(f"stranger-{number}", ContainerSpec(image="busybox", labels=spoiled))
    name = "k8s_a_b_c_d_0"
    bad = {labels.TYPE: "container", labels.SANDBOX_ID: "a/b", labels.CONFIG: "not json"}
    await world.engine.create(name, ContainerSpec(image="busybox", labels=bad))
    await world.start()
    assert world.state(sandbox) == "READY"
    for live in world.engine.containers:
        if world.state(live.id) == "gone":
            world.engine.vanish(live.id)


async def test_another_shims_pods_are_adopted(world: World) -> None:
    pod = {
        "io.kubernetes.pod.name": "dns",
        "io.kubernetes.pod.namespace": "kube-system",
        "io.kubernetes.pod.uid": "u-1",
        "app": "dns",
        "annotation.checksum": "1",
    }
    sandbox = await world.engine.create(
        "k8s_POD_dns_kube-system_u-1_3",
        ContainerSpec(
            image="busybox",
            command=("serve",),
            labels=pod | {labels.TYPE: "podsandbox", "io.kubernetes.container.name": "POD"},
            ipc_mode="shareable",
            cgroup_parent="/kubepods/x",
        ),
    )
    await world.engine.start(sandbox)
    of_pod = {labels.TYPE: "container", labels.SANDBOX_ID: sandbox, labels.LOG_PATH: "/var/log/pods/x/0.log"}
    container = await world.engine.create(
        "k8s_dns_dns_kube-system_u-1_2",
        ContainerSpec(
            image="busybox", command=("serve",), labels=pod | of_pod | {"io.kubernetes.container.name": "dns"}
        ),
    )
    await world.engine.start(container)
    live = world.in_engine(sandbox)
    assert live is not None
    world.namespaces.ips[live.pid] = ("10.1.2.3", "fd00::3")
    await world.node.compare()
    assert world.states() == {sandbox: "READY", container: "RUNNING"}
    taken = world.rt.index.need_sandbox(sandbox)
    assert taken.metadata == PodSandboxMetadata(name="dns", namespace="kube-system", uid="u-1", attempt=3)
    assert taken.ips == ("10.1.2.3", "fd00::3")
    assert taken.record.config.annotations == {"checksum": "1"}
    assert "io.kubernetes.container.name" not in taken.record.config.labels
    assert world.namespaces.held[sandbox] == live.pid
    record = world.rt.index.need_container(container).record
    assert record.config.metadata == ContainerMetadata(name="dns", attempt=2)
    assert world.rt.index.need_container(container).log_path == "/var/log/pods/x/0.log"
    await world.check_consistent()


@pytest.mark.pause
async def test_a_pin_taken_away_is_made_again(world: World) -> None:
    sandbox = await world.run()
    stopped = await world.run(name="stopped")
    await world.stop(stopped)
    pid = world.namespaces.held.pop(sandbox)
    await world.node.compare()
    assert world.namespaces.held == {sandbox: pid}
    world.namespaces.held.clear()
    await world.restart()
    assert world.namespaces.held == {sandbox: pid}


async def test_a_pin_is_not_made_of_a_strangers_namespace(world: World) -> None:
    await world.run()
    world.namespaces.held.clear()
    await world.node.close()
    pinned = world.namespaces.pin

    async def pin(sandbox_id: str, pid: int) -> None:
        world.engine.restart_container(sandbox_id)  # the pid that was asked for is gone
        await pinned(sandbox_id, pid)

    world.namespaces.pin = pin  # type: ignore[method-assign]
    await world.start()
    assert world.namespaces.held == {}
    world.namespaces.pin = pinned  # type: ignore[method-assign]


async def test_what_unknown_sandboxes_left_is_cleared_at_the_start(world: World) -> None:
    sandbox = await world.run()
    await world.node.close()
    await world.namespaces.pin("lost", 1)
    world.network.held["lost"] = replace(world.network.held[sandbox], sandbox_id="lost")
    await world.start()
    assert world.namespaces.held.keys() == world.network.held.keys() == {sandbox}


async def test_a_half_made_sandbox_is_listed_and_replaced(world: World) -> None:
    world.network.script("attach", Hang())
    task = world.background(world.run())
    await world.network.called("attach")
    half = next(iter(world.rt.index.sandboxes())).id
    await world.restart(kill=True)
    assert task.done()
    assert world.states() == {half: "NOTREADY"}
    assert world.rt.index.need_sandbox(half).record.phase is Phase.CREATING
    made = await world.run()
    assert world.states() == {made: "READY"}
    assert world.network.dels[half] == 1


async def test_a_sandbox_whose_record_was_never_written_is_replaced(world: World) -> None:
    world.engine.script("create", Hang(after_effect=True))
    world.background(world.run())
    await world.until(lambda: world.engine.hanging == 1)
    await world.restart(kill=True)
    (half,) = world.states()
    assert world.state(half) == "NOTREADY"
    made = await world.run()
    assert world.states() == {made: "READY"}


async def test_a_finished_sandbox_is_not_replaced(world: World) -> None:
    sandbox = await world.run()
    await world.restart()
    with pytest.raises(NameReserved):
        await world.run()
    await world.stop(sandbox)
    await world.restart()
    with pytest.raises(NameReserved):
        await world.run()
    assert await world.run(attempt=1) != sandbox


async def test_a_container_that_nobody_was_told_of_is_replaced_and_a_started_one_is_not(world: World) -> None:
    sandbox = await world.run()
    left = await world.create(sandbox)
    with pytest.raises(NameReserved):
        await world.create(sandbox)
    await world.restart()
    container = await world.run_container(sandbox)
    assert world.states() == {sandbox: "READY", container: "RUNNING"}
    assert world.in_engine(left) is None
    await world.restart()
    with pytest.raises(NameReserved):
        await world.create(sandbox)


async def test_one_inspect_without_an_answer_turns_no_pod_dead(world: World) -> None:
    sandbox, other = await world.run(), await world.run(name="other")
    container = await world.run_container(sandbox)
    await world.node.close()
    script = [
        world.engine.script(
            "inspect", Fail(EngineTimeout("no answer")), times=None, match=lambda i: i in (sandbox, container)
        )
    ]
    await world.start()
    assert world.states() == {sandbox: "READY", other: "READY", container: "UNKNOWN"}
    assert world.rt.index.need_sandbox(sandbox).ips
    with pytest.raises(EngineTimeout):
        await world.stop(sandbox)
    script[0].cancel()
    await world.until(lambda: world.state(container) == "EXITED", 3)
    assert world.state(sandbox) == "NOTREADY"


async def test_an_engine_that_answers_nothing_is_away(world: World) -> None:
    for number in range(20):
        await world.run(name=f"p{number}")
    states = world.states()
    line = world.engine.script("inspect", Fail(EngineTimeout("no answer")), times=None)
    with pytest.raises(EngineTimeout):
        await world.node.compare()
    assert world.states() == states
    line.cancel()


async def test_an_object_that_the_engine_cannot_tell_of_keeps_its_state(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    line = world.engine.script("inspect", Fail(EngineError("broken")), times=None)
    await world.node.compare()
    assert world.states() == {sandbox: "READY", container: "RUNNING"}
    line.cancel()


@pytest.mark.pause
async def test_a_pod_that_cannot_be_read_at_the_start_keeps_its_network(world: World) -> None:
    """Neither store nor engine tells of it at that moment: it is no leftover all the same."""
    sandbox, other = await world.run(), await world.run(name="other")
    await world.node.close()
    for known in world.rt.index.sandboxes():
        world.namespaces.ips[known.pid] = known.ips
    world.store = MemoryStore()
    world.engine.script("inspect", Fail(EngineError("by the test")), match=lambda asked: asked == sandbox)
    await world.start()
    assert world.states() == {other: "READY"}
    assert world.network.dels.total() == 0
    assert world.network.held.keys() == world.namespaces.held.keys() == {sandbox, other}
    await world.node.compare()
    assert world.states() == {sandbox: "READY", other: "READY"}


@pytest.mark.pause
@pytest.mark.parametrize("verb", ["gc", "detach"])
async def test_a_plugin_that_hangs_at_the_start_does_not_keep_the_node_down(world: World, verb: str) -> None:
    """Attachments that belong to nobody are released at the start, for which it waits a while and no longer."""
    sandbox, lost = await world.run(), await world.run(name="lost")
    released = world.network.calls["gc"]
    await world.node.close()
    await world.store.delete(lost)
    await world.engine.remove(lost)
    line = world.network.script(verb, Hang(), times=None)
    await world.start()
    assert world.states() == {sandbox: "READY"}
    assert (lost in world.network.held) == (verb == "detach"), "its own pin had it released before"
    await world.node.close()
    line.cancel()
    await world.start()
    assert world.network.calls["gc"] > released
    assert world.network.held.keys() == world.namespaces.held.keys() == {sandbox}


@pytest.mark.pause
@pytest.mark.parametrize("kind", [labels.SANDBOX, labels.CONTAINER])
async def test_a_container_with_an_images_labels_is_nobodys(world: World, kind: str) -> None:
    """`docker run` of an image committed from a pod's container: the labels are the image's, the name is not."""
    sandbox = await world.run()
    of_pod = world.in_engine(sandbox)
    assert of_pod is not None
    spec = ContainerSpec(
        image="busybox",
        labels=dict(of_pod.labels) | {labels.TYPE: kind, labels.SANDBOX_ID: sandbox},
        command=("serve",),
    )
    stranger = await world.engine.create("debugging", spec)
    await world.restart()
    assert set(world.states()) == {sandbox}
    await world.remove(sandbox)
    assert world.in_engine(stranger) is not None
    await world.engine.remove(stranger)
