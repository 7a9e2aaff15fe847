"""Anchored pods: their namespaces are pins, and their containers come into them by the front, whatever is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.front.twins import read_conf
from crishim.network import netns
from tests.env import images
from tests.env.engine import TestEngine
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
from tests.integration.server.residue import LABEL, assert_nothing_left, assert_store_empty, remove_anchors
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine

CONTAINER, POD_WIDE, NODE = pb.CONTAINER, pb.POD, pb.NODE
OWN_PIDS = pb.NamespaceOption(pid=CONTAINER)
IN_IT = linux(namespace_options=OWN_PIDS)
KINDS = ("net", "ipc", "uts")
QUICK = ("--log-level=debug",)


@pytest.fixture
def world(new_server: Callable[..., CrishimServer], engine: TestEngine) -> Iterator[CrishimServer]:
    """A server with the front and the embedded network. After the test all that is listed is removed, and nothing is
    left."""
    server = new_server(embedded=True, flags=list(QUICK), fronted=True)
    server.start()
    yield server
    end(server, engine)


@pytest.fixture(scope="module")
def own(world_folder: Path) -> Iterator[FrontedEngine]:
    """An engine of these tests' own, to be restarted and tampered with."""
    binaries = os.environ.get("CRISHIM_TEST_ENGINE")
    with FrontedEngine(world_folder / "tmp" / "own", Path(binaries) if binaries else None) as engine:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        yield engine


@pytest.fixture
def own_world(new_server: Callable[..., CrishimServer], own: FrontedEngine) -> Iterator[CrishimServer]:
    """The same on `own`."""
    server = new_server(engine_url=own.url, embedded=True, flags=list(QUICK))
    own.ask(server.folder / "run")
    server.start()
    yield server
    end(server, own)


def end(server: CrishimServer, engine: TestEngine) -> None:
    """Remove all that is listed, and look whether that was all."""
    server.remove_all()
    assert_nothing_left(server, engine.api)
    assert server.stop() == 0
    assert_store_empty(server)
    remove_anchors(engine.api)


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


def test_containers_share_all_but_processes(world: CrishimServer, engine: TestEngine) -> None:
    sysctls = {"net.ipv4.ip_unprivileged_port_start": "77", "kernel.msgmax": "9000", "net.ipv4.ip_forward": "1"}
    pod = anchored_pod(
        world,
        hostname="a-name",
        dns_config=pb.DNSConfig(servers=["10.0.0.10"], searches=["cluster.local"]),
        linux=pod_linux(namespace_options=OWN_PIDS, sysctls=sysctls),
    )
    seen = object_of(engine.api, pod)
    assert seen is not None
    assert (seen["State"]["Status"], seen["State"]["Pid"]) == ("created", 0)
    assert pod.say("echo $HOSTNAME", linux=IN_IT) == "a-name\n"
    server = pod.start(inside("server", command=["sh", "-c", "echo kept > /dev/shm/file; nc -l -p 80 -e echo hello"]))
    first, pinned = pid_of(engine.api, server), pins(world, pod)
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
    assert len(anchors(engine.api)) == 1
    listed = engine.api.call("GET", "/containers/json", {"filters": f'{{"label": ["{LABEL}"]}}'})
    assert [row["Id"] for row in listed if row["Id"] != server] == [], "no process but those of its containers"


def test_a_container_that_somebody_restarts(world: CrishimServer, engine: TestEngine) -> None:
    """It comes back into the namespaces of its pod, also while crishim was away in between."""
    pod = anchored_pod(world)
    container_id, pinned = pod.start(inside()), pins(world, pod)
    before = pid_of(engine.api, container_id)
    engine.api.call("POST", f"/containers/{container_id}/restart", {"t": "0"})
    assert pid_of(engine.api, container_id) != before
    assert namespaces(pid_of(engine.api, container_id)) == pinned
    world.restart()
    engine.api.call("POST", f"/containers/{container_id}/restart", {"t": "0"})
    assert namespaces(pid_of(engine.api, container_id)) == pinned
    until(lambda: container_status(world, container_id).state == RUNNING, "RUNNING")


def test_the_object_goes(world: CrishimServer, engine: TestEngine) -> None:
    """The pod does not hang on it: it stays READY with its address, and gets another object."""
    pod = anchored_pod(world)
    container_id, ip = pod.start(inside()), pod.status().network.ip
    for way in ("removed", "pruned", "removed while away"):
        seen = object_of(engine.api, pod)
        assert seen is not None
        if way == "removed while away":
            world.kill9()
        if way == "pruned":
            engine.api.call("POST", "/containers/prune")
        else:
            engine.api.call("DELETE", f"/containers/{seen['Id']}", {"force": "1"})
        if way == "removed while away":
            world.start()
        made = until(lambda: object_of(engine.api, pod), f"another object, {way}")
        assert made is not None
        assert made["Id"] != seen["Id"]
        assert made["Config"]["Labels"] == seen["Config"]["Labels"]
        assert listed_states(world) == {pod.id: READY, container_id: RUNNING}
    assert pod.status().network.ip == ip
    assert pod.say("echo still", linux=IN_IT) == "still\n"


def test_the_anchor_goes(world: CrishimServer, engine: TestEngine) -> None:
    """Containers that run do not notice; new ones have another one; what was created with the old one is to be new."""
    pod = anchored_pod(world)
    created, container_id = pod.create(inside("created")), pod.start(inside())
    (anchor,) = anchors(engine.api)
    engine.api.call("POST", f"/containers/{anchor}/kill")
    until(lambda: inspect(engine.api, anchor)["State"]["Running"], "the anchor again")
    engine.api.call("DELETE", f"/containers/{anchor}", {"force": "1"})
    until(lambda: anchors(engine.api) not in ([], [anchor]), "another anchor")
    with pytest.raises(grpc.RpcError, match="a new container has the new one") as caught:
        world.client.StartContainer(pb.StartContainerRequest(container_id=created), timeout=CALL)
    assert code(caught.value) is grpc.StatusCode.FAILED_PRECONDITION
    assert listed_states(world)[container_id] == RUNNING
    again = pod.start(inside("created", attempt=1, log_path="again.log"))
    assert namespaces(pid_of(engine.api, again)) == pins(world, pod)


def test_the_engine_restarts(own_world: CrishimServer, own: FrontedEngine) -> None:
    """Without live-restore: its containers end, the pod keeps address and shared memory, and goes on with new ones."""
    pod = anchored_pod(own_world)
    container_id, ip, pinned = pod.start(inside()), pod.status().network.ip, pins(own_world, pod)
    pod.say("echo kept > /dev/shm/file", linux=IN_IT)
    sharing = Pod(own_world)
    shared, shared_pins = sharing.start(), pins(own_world, sharing)
    own.restart()
    until(lambda: listed_states(own_world).get(container_id) == EXITED, "the container's end")
    own_world.wait_ready()
    assert listed_states(own_world) == {pod.id: READY, container_id: EXITED, sharing.id: READY, shared: EXITED}
    assert namespaces(pid_of(own.api, sharing.start(make_container(attempt=1)))) == shared_pins
    assert (pod.status().network.ip, pins(own_world, pod)) == (ip, pinned)
    until(lambda: len(anchors(own.api)) == 1, "an anchor")
    assert pod.say("cat /dev/shm/file", linux=IN_IT) == "kept\n"
    again = pod.start(inside(attempt=1))
    assert namespaces(pid_of(own.api, again)) == pinned


def test_pods_of_both_carriers(world: CrishimServer, engine: TestEngine) -> None:
    """Switching changes what new pods are, and nothing about those that are there."""
    old = anchored_pod(world)
    sharing = Pod(world)
    kept = [old.start(inside()), sharing.start()]
    world.stop()
    world.flags = [*QUICK, "--carrier=pause"]
    world.start()
    paused = anchored_pod(world)
    assert inspect(engine.api, paused.id)["State"]["Status"] == "running"
    process = object_of(engine.api, sharing)
    assert process is not None
    assert process["State"]["Status"] == "running"
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


def test_pins_gone(world: CrishimServer, engine: TestEngine) -> None:
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
        engine.api.call("POST", f"/containers/{container_id}/restart", {"t": "0"})
    pod.remove()
    assert listed_states(world) == {other.id: READY}


def test_privileged_beside_ordinary(world: CrishimServer) -> None:
    """An ordinary container's read-only /sys, which comes first, does not make a privileged one's so."""
    pod = anchored_pod(world, linux=pod_linux(namespace_options=OWN_PIDS, privileged=True))
    script = (
        "grep ' /sys sysfs ' /proc/mounts | cut -d' ' -f4 | cut -d, -f1;"
        " (echo x > /sys/class/net/lo/ifalias) 2> /dev/null && echo w"
    )
    assert pod.say(f"{script}; true", linux=IN_IT) == "ro\n"
    assert pod.say(script, linux=linux(namespace_options=OWN_PIDS, privileged=True)) == "rw\nw\n"


def test_host_network(world: CrishimServer, engine: TestEngine) -> None:
    modes = pb.NamespaceOption(network=NODE, pid=CONTAINER)
    pod = anchored_pod(world, linux=pod_linux(namespace_options=modes))
    container_id = pod.start(inside(linux=linux(namespace_options=modes)))
    own = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in KINDS}
    found = namespaces(pid_of(engine.api, container_id))
    assert (found["net"], found["uts"]) == (own["net"], own["uts"])
    assert found["ipc"] == pins(world, pod)["ipc"]
    assert pod.status().network.ip == ""
    world.restart()
    assert listed_states(world) == {pod.id: READY, container_id: RUNNING}


def test_a_lost_store(world: CrishimServer, engine: TestEngine) -> None:
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


def test_a_container_that_was_not_rewritten(own_world: CrishimServer, own: FrontedEngine) -> None:
    """Should the front not take part, the container has no network at all, and is killed."""
    pod = anchored_pod(own_world)
    container_id = pod.start(inside())
    twin = Path(
        own.api.call("GET", "/info")["Runtimes"][inspect(own.api, container_id)["HostConfig"]["Runtime"]]["path"]
    )
    program, real = twin.read_bytes(), read_conf(twin).runtime
    twin.unlink()
    twin.symlink_to(real)
    try:
        with pytest.raises(grpc.RpcError, match="front did not take part") as caught:
            pod.start(inside("late"))
        assert code(caught.value) is grpc.StatusCode.FAILED_PRECONDITION
        stray = pod.create(inside("stray"))
        own.api.call("POST", f"/containers/{stray}/start")
        (anchor,) = anchors(own.api)
        found, empty = namespaces(pid_of(own.api, stray)), namespaces(pid_of(own.api, anchor))
        assert found["net"] == empty["net"]
        own_world.restart()
        until(lambda: container_status(own_world, stray).state == EXITED, "its end")
        assert container_status(own_world, container_id).state == RUNNING
    finally:
        twin.unlink()
        twin.write_bytes(program)
        twin.chmod(0o755)
