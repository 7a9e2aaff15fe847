"""Anchored pods: their namespaces are pins, their containers come into them by the front, whatever is done meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.network import netns
from tests.env import images
from tests.env.http_api import EngineApi, EngineApiError
from tests.integration.server.fronted import FrontedEngine
from tests.integration.server.pods import (
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    Pod,
    container_status,
    inspect,
    linux,
    listed_states,
    make_container,
    make_pod,
    pid_of,
    pod_linux,
)
from tests.integration.server.residue import LABEL, assert_nothing_left, assert_store_empty
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine

CONTAINER, POD_WIDE, NODE = pb.CONTAINER, pb.POD, pb.NODE
OWN_PIDS = pb.NamespaceOption(pid=CONTAINER)
IN_IT = linux(namespace_options=OWN_PIDS)
KINDS = ("net", "ipc", "uts")
QUICK = ("--log-level=debug",)


@pytest.fixture(scope="module")
def fronted(world_folder: Path) -> Iterator[FrontedEngine]:
    """The engine of these tests."""
    binaries = os.environ.get("CRISHIM_TEST_ENGINE")
    with FrontedEngine(world_folder / "tmp" / "fronted", Path(binaries) if binaries else None) as engine:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        yield engine


@pytest.fixture
def world(new_server: Callable[..., CrishimServer], fronted: FrontedEngine) -> Iterator[CrishimServer]:
    """A server with the embedded network. After the test all that is listed is removed, and nothing is left."""
    server = new_server(engine_url=fronted.url, embedded=True, flags=list(QUICK))
    fronted.ask(server.folder / "run")
    server.start()
    yield server
    server.remove_all()
    assert_nothing_left(server, fronted.api)
    assert server.stop() == 0
    assert_store_empty(server)
    for anchor in anchors(fronted.api):
        fronted.api.call("DELETE", f"/containers/{anchor}", {"force": "1"})


def anchored_pod(server: CrishimServer, **changes: Any) -> Pod:
    """A pod as kubelets ask for them."""
    given = {"linux": pod_linux(namespace_options=OWN_PIDS)}
    return Pod(server, make_pod(server, **(given | changes)))


def inside(name: str = "main", **changes: Any) -> pb.ContainerConfig:
    """A container of such a pod."""
    return make_container(name, **({"linux": IN_IT} | changes))


def anchors(api: EngineApi) -> list[str]:
    """Ids of the anchors that the engine has."""
    query = {"all": "1", "filters": '{"label": ["io.crishim.anchor"]}'}
    return [row["Id"] for row in api.call("GET", "/containers/json", query)]


def object_of(api: EngineApi, pod: Pod) -> Mapping[str, Any] | None:
    """The engine's object of a pod, as inspect shows it."""
    name = f"k8s_POD_{pod.config.metadata.name}_default_{pod.config.metadata.uid}_0"
    with suppress(EngineApiError):
        return inspect(api, name)
    return None


def pins(server: CrishimServer, pod: Pod) -> dict[str, int]:
    """The inodes of the pod's namespaces."""
    folder = server.folder / "run" / "pods" / pod.id
    paths = {"net": server.pins / f"crishim-{pod.id}", "ipc": folder / "ipc", "uts": folder / "uts"}
    return {kind: paths[kind].stat().st_ino for kind in KINDS if paths[kind].exists()}


def namespaces(pid: int) -> dict[str, int]:
    """Those of a process."""
    return {kind: os.stat(f"/proc/{pid}/ns/{kind}").st_ino for kind in KINDS}


def test_containers_share_all_but_processes(world: CrishimServer, fronted: FrontedEngine) -> None:
    sysctls = {"net.ipv4.ip_unprivileged_port_start": "77", "kernel.msgmax": "9000", "net.ipv4.ip_forward": "1"}
    pod = anchored_pod(
        world,
        hostname="a-name",
        dns_config=pb.DNSConfig(servers=["10.0.0.10"], searches=["cluster.local"]),
        linux=pod_linux(namespace_options=OWN_PIDS, sysctls=sysctls),
    )
    seen = object_of(fronted.api, pod)
    assert seen is not None
    assert (seen["State"]["Status"], seen["State"]["Pid"]) == ("created", 0)
    server = pod.start(inside("server", command=["sh", "-c", "echo kept > /dev/shm/file; nc -l -p 80 -e echo hello"]))
    first, pinned = pid_of(fronted.api, server), pins(world, pod)
    assert namespaces(first) == pinned
    assert os.readlink(f"/proc/{first}/ns/pid") != os.readlink("/proc/self/ns/pid")
    script = (
        "until nc 127.0.0.1 80 < /dev/null; do sleep 0.05; done; cat /dev/shm/file; hostname; cat /etc/hostname"
        " /etc/resolv.conf; grep -c localhost /etc/hosts;"
        " cd /proc/sys; cat net/ipv4/ip_unprivileged_port_start kernel/msgmax net/ipv4/ip_forward;"
        " cat net/ipv4/ping_group_range;"
        " df -k /dev/shm | tail -1; ip -o addr show lo | wc -l"
    )
    said = pod.say(script, linux=IN_IT).splitlines()
    assert said[:6] == ["hello", "kept", "a-name", "a-name", "nameserver 10.0.0.10", "search cluster.local"], said
    assert said[6:11] == ["2", "77", "9000", "1", "0\t2147483647"], said
    assert said[11].split()[:2] == ["shm", "65536"], said
    assert pod.status().network.ip
    assert pod.status().network.ip in pod.say("ip addr show eth0", linux=IN_IT)
    assert len(anchors(fronted.api)) == 1
    listed = fronted.api.call("GET", "/containers/json", {"filters": f'{{"label": ["{LABEL}"]}}'})
    assert [row["Id"] for row in listed if row["Id"] != server] == [], "no process but those of its containers"


def test_a_container_that_somebody_restarts(world: CrishimServer, fronted: FrontedEngine) -> None:
    """It comes back into the namespaces of its pod, also while crishim was away in between."""
    pod = anchored_pod(world)
    container_id, pinned = pod.start(inside()), pins(world, pod)
    before = pid_of(fronted.api, container_id)
    fronted.api.call("POST", f"/containers/{container_id}/restart", {"t": "0"})
    assert pid_of(fronted.api, container_id) != before
    assert namespaces(pid_of(fronted.api, container_id)) == pinned
    world.restart()
    fronted.api.call("POST", f"/containers/{container_id}/restart", {"t": "0"})
    assert namespaces(pid_of(fronted.api, container_id)) == pinned
    until(lambda: container_status(world, container_id).state == RUNNING, "RUNNING")


@pytest.mark.parametrize("way", ["removed", "pruned", "removed while away"])
def test_the_object_goes(world: CrishimServer, fronted: FrontedEngine, way: str) -> None:
    """The pod does not hang on it: it stays READY with its address, and gets another object."""
    pod = anchored_pod(world)
    container_id, ip = pod.start(inside()), pod.status().network.ip
    seen = object_of(fronted.api, pod)
    assert seen is not None
    if way == "removed while away":
        world.kill9()
    if way == "pruned":
        fronted.api.call("POST", "/containers/prune")
    else:
        fronted.api.call("DELETE", f"/containers/{seen['Id']}", {"force": "1"})
    if way == "removed while away":
        world.start()

    def again() -> Mapping[str, Any] | None:
        return object_of(fronted.api, pod)

    made = until(again, "another object")
    assert made["Id"] != seen["Id"]
    assert made["Config"]["Labels"] == seen["Config"]["Labels"]
    assert listed_states(world) == {pod.id: READY, container_id: RUNNING}
    assert pod.status().network.ip == ip
    assert pod.say("echo still", linux=IN_IT) == "still\n"


def test_the_anchor_goes(world: CrishimServer, fronted: FrontedEngine) -> None:
    """Containers that run do not notice; new ones have another anchor; one that was not started yet is to be new, too."""
    pod = anchored_pod(world)
    created, container_id = pod.create(inside("created")), pod.start(inside())
    (anchor,) = anchors(fronted.api)
    fronted.api.call("POST", f"/containers/{anchor}/kill")
    until(lambda: inspect(fronted.api, anchor)["State"]["Running"], "the anchor again")
    fronted.api.call("DELETE", f"/containers/{anchor}", {"force": "1"})
    until(lambda: anchors(fronted.api) not in ([], [anchor]), "another anchor")
    with pytest.raises(grpc.RpcError, match="a new container has the new one") as caught:
        world.client.StartContainer(pb.StartContainerRequest(container_id=created), timeout=CALL)
    assert code(caught.value) is grpc.StatusCode.FAILED_PRECONDITION
    assert listed_states(world)[container_id] == RUNNING
    again = pod.start(inside("created", attempt=1, log_path="again.log"))
    assert namespaces(pid_of(fronted.api, again)) == pins(world, pod)


def test_the_engine_restarts(world: CrishimServer, fronted: FrontedEngine) -> None:
    """Without live-restore: its containers end, the pod keeps address and shared memory, and goes on with new ones."""
    pod = anchored_pod(world)
    container_id, ip, pinned = pod.start(inside()), pod.status().network.ip, pins(world, pod)
    pod.say("echo kept > /dev/shm/file", linux=IN_IT)
    fronted.restart()
    until(lambda: listed_states(world).get(container_id) == EXITED, "the container's end")
    world.wait_ready()
    assert listed_states(world) == {pod.id: READY, container_id: EXITED}
    assert (pod.status().network.ip, pins(world, pod)) == (ip, pinned)
    until(lambda: len(anchors(fronted.api)) == 1, "an anchor")
    assert pod.say("cat /dev/shm/file", linux=IN_IT) == "kept\n"
    again = pod.start(inside(attempt=1))
    assert namespaces(pid_of(fronted.api, again)) == pinned


def test_pods_of_both_carriers(world: CrishimServer, fronted: FrontedEngine) -> None:
    """Switching changes what new pods are, and nothing about those that are there."""
    old = anchored_pod(world)
    sharing = Pod(world)
    kept = [old.start(inside()), sharing.start()]
    world.stop()
    world.flags = [*QUICK, "--carrier=pause"]
    world.start()
    paused = anchored_pod(world)
    assert inspect(fronted.api, paused.id)["State"]["Status"] == "running"
    assert inspect(fronted.api, sharing.id)["State"]["Status"] == "running"
    states = {pod.id: READY for pod in (old, sharing, paused)} | dict.fromkeys(kept, RUNNING)
    assert listed_states(world) == states
    assert old.say("echo still", linux=IN_IT) == "still\n"
    world.stop()
    world.flags = [*QUICK, "--carrier=anchored"]
    world.start()
    assert listed_states(world) == states
    assert paused.say("hostname", linux=IN_IT) == f"{paused.config.hostname}\n"
    paused.remove()
    assert listed_states(world) == {key: state for key, state in states.items() if key != paused.id}


def test_pins_gone(world: CrishimServer, fronted: FrontedEngine) -> None:
    """As after a reboot: the pod is not ready any more, and all of it can be removed."""
    pod, other = anchored_pod(world), anchored_pod(world)
    container_id = pod.start(inside())
    world.stop()
    netns.unpin_sync(str(world.pins / f"crishim-{pod.id}"))
    world.start()
    assert listed_states(world) == {pod.id: NOTREADY, container_id: RUNNING, other.id: READY}
    with pytest.raises(grpc.RpcError) as caught:
        pod.create(inside("late"))
    assert code(caught.value) is grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(EngineApiError, match="not ready"):
        fronted.api.call("POST", f"/containers/{container_id}/restart", {"t": "0"})
    pod.remove()
    assert listed_states(world) == {other.id: READY}


def test_host_network(world: CrishimServer, fronted: FrontedEngine) -> None:
    modes = pb.NamespaceOption(network=NODE, pid=CONTAINER)
    pod = anchored_pod(world, linux=pod_linux(namespace_options=modes))
    container_id = pod.start(inside(linux=linux(namespace_options=modes)))
    own = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in KINDS}
    found = namespaces(pid_of(fronted.api, container_id))
    assert (found["net"], found["uts"]) == (own["net"], own["uts"])
    assert found["ipc"] == pins(world, pod)["ipc"]
    assert pod.status().network.ip == ""
    world.restart()
    assert listed_states(world) == {pod.id: READY, container_id: RUNNING}


def test_a_lost_store(world: CrishimServer, fronted: FrontedEngine) -> None:
    """The object's labels tell of the pod, under the id that it had."""
    pod = anchored_pod(world)
    container_id, status = pod.start(inside()), pod.status()
    world.kill9()
    for path in world.state.glob("checkpoint.db*"):
        path.unlink()
    world.start()
    assert listed_states(world) == {pod.id: READY, container_id: RUNNING}
    assert pod.status().metadata == status.metadata
    assert pod.status().network == status.network
    assert pod.say("echo still", linux=IN_IT) == "still\n"


def test_a_container_that_was_not_rewritten(world: CrishimServer, fronted: FrontedEngine) -> None:
    """Should the front not take part, the container has no network at all, and is killed."""
    pod = anchored_pod(world)
    assert pod.say("true", linux=IN_IT) == ""
    program = fronted.twin.read_bytes()
    fronted.twin.unlink()
    fronted.twin.symlink_to(fronted.real)
    try:
        with pytest.raises(grpc.RpcError, match="front did not take part") as caught:
            pod.start(inside())
        assert code(caught.value) is grpc.StatusCode.FAILED_PRECONDITION
        stray = pod.create(inside("stray"))
        fronted.api.call("POST", f"/containers/{stray}/start")
        assert (
            namespaces(pid_of(fronted.api, stray))["net"]
            == namespaces(pid_of(fronted.api, anchors(fronted.api)[0]))["net"]
        )
        world.restart()
        until(lambda: container_status(world, stray).state == EXITED, "its end")
    finally:
        fronted.twin.unlink()
        fronted.twin.write_bytes(program)
        fronted.twin.chmod(0o755)
