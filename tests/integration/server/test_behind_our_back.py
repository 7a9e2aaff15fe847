"""Somebody uses the engine directly: what is listed follows, and all can be stopped and removed."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import grpc
import pytest

from cni.testing import ScriptedPlugin
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.network import netns
from tests.env.cni import CniDirs
from tests.env.engine import TestEngine
from tests.integration.server.pods import (
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    Pod,
    container_status,
    listed_states,
    make_container,
    make_pod,
)
from tests.integration.server.residue import assert_nothing_left, assert_store_empty, leases, unreleased
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine


@pytest.fixture
def world(
    new_server: Callable[..., CrishimServer], engine: TestEngine, bridged: CniDirs, tally: ScriptedPlugin
) -> Iterator[CrishimServer]:
    """A server with a network of its own. After the test all that is listed is removed, and nothing is left."""
    server = new_server(cni=bridged)
    server.start()
    yield server
    server.remove_all()
    assert_nothing_left(server, engine.api)
    assert unreleased(tally) == []
    assert server.stop() == 0
    assert_store_empty(server)


@pytest.fixture
def holder() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """``holder()``: a process in a network namespace of its own."""
    with ExitStack() as stack:

        def start() -> subprocess.Popen[bytes]:
            # It says that it is there: unshare runs the shell only after it has moved.
            command = ["unshare", "--net", "sh", "-c", "echo; exec sleep 1000"]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.read(1) == b"\n"
            return process

        yield start


def refuses_containers(pod: Pod) -> bool:
    """Whether no container can be created in the pod, for the reason that it is not ready (trap 14)."""
    with pytest.raises(grpc.RpcError) as caught:
        pod.create(make_container("late"))
    return code(caught.value) is grpc.StatusCode.FAILED_PRECONDITION


def test_sandbox_removed(world: CrishimServer, engine: TestEngine) -> None:
    pod, other = Pod(world), Pod(world)
    container_id, kept = pod.start(), other.start()
    engine.api.call("DELETE", f"/containers/{pod.id}", {"force": "1"})
    until(lambda: listed_states(world).get(pod.id) == NOTREADY, "NOTREADY")
    assert pod.status().network.ip == ""
    assert refuses_containers(pod)
    pod.remove()
    assert listed_states(world) == {other.id: READY, kept: RUNNING}
    assert container_id not in {path.read_text() for path in leases(_cni(world))}


def test_sandbox_removed_while_down(world: CrishimServer, engine: TestEngine) -> None:
    pod = Pod(world)
    container_id = pod.start()
    world.kill9()
    engine.api.call("DELETE", f"/containers/{pod.id}", {"force": "1"})
    world.start()
    states = listed_states(world)
    assert states[pod.id] == NOTREADY
    assert states[container_id] in (RUNNING, EXITED)


def test_sandbox_restarted(world: CrishimServer, engine: TestEngine) -> None:
    """It runs, but in another network namespace than the one that was attached: it is not ready any more."""
    pod = Pod(world)
    pod.start()
    engine.api.call("POST", f"/containers/{pod.id}/restart", {"t": "0"})
    until(lambda: listed_states(world)[pod.id] == NOTREADY, "NOTREADY")
    assert refuses_containers(pod)
    pod.stop()
    assert listed_states(world)[pod.id] == NOTREADY
    assert leases(_cni(world)) == []


def test_sandbox_stopped_and_started_while_down(world: CrishimServer, engine: TestEngine) -> None:
    pod, stopped = Pod(world), Pod(world)
    world.kill9()
    engine.api.call("POST", f"/containers/{pod.id}/restart", {"t": "0"})
    engine.api.call("POST", f"/containers/{stopped.id}/stop", {"t": "0"})
    world.start()
    assert listed_states(world) == {pod.id: NOTREADY, stopped.id: NOTREADY}


def test_container_removed(world: CrishimServer, engine: TestEngine) -> None:
    pod = Pod(world)
    container_id, kept = pod.start(), pod.start(make_container("other"))
    engine.api.call("DELETE", f"/containers/{container_id}", {"force": "1"})
    until(lambda: container_id not in listed_states(world), "its end")
    assert listed_states(world) == {pod.id: READY, kept: RUNNING}
    with pytest.raises(grpc.RpcError) as caught:
        container_status(world, container_id)
    assert code(caught.value) is grpc.StatusCode.NOT_FOUND
    world.client.StopContainer(pb.StopContainerRequest(container_id=container_id), timeout=CALL)
    world.client.RemoveContainer(pb.RemoveContainerRequest(container_id=container_id), timeout=CALL)
    assert pod.start(make_container(log_path="again.log")), "its name is free"


def test_container_ended(world: CrishimServer, engine: TestEngine) -> None:
    pod = Pod(world)
    stopped, killed = pod.start(), pod.start(make_container("killed"))
    engine.api.call("POST", f"/containers/{stopped}/stop", {"t": "30"})
    engine.api.call("POST", f"/containers/{killed}/kill", {"signal": "KILL"})
    assert (pod.ended(stopped).exit_code, pod.ended(stopped).reason) == (0, "Completed")
    assert (pod.ended(killed).exit_code, pod.ended(killed).reason) == (137, "Error")


def test_container_restarted_and_paused(world: CrishimServer, engine: TestEngine) -> None:
    """What is told is what is: it runs again since a later time. A paused one runs, and can be stopped."""
    pod = Pod(world)
    container_id = pod.start()
    first = container_status(world, container_id)
    engine.api.call("POST", f"/containers/{container_id}/restart", {"t": "5"})

    def again() -> bool:
        status = container_status(world, container_id)
        return status.state == RUNNING and status.started_at > first.started_at

    until(again, "running again")
    assert container_status(world, container_id).created_at == first.created_at
    engine.api.call("POST", f"/containers/{container_id}/pause")
    assert listed_states(world)[container_id] == RUNNING
    world.client.StopContainer(pb.StopContainerRequest(container_id=container_id, timeout=10), timeout=CALL)
    assert container_status(world, container_id).state == EXITED


def test_renamed(world: CrishimServer, engine: TestEngine) -> None:
    """Objects are known by id and labels: a new name in the engine changes nothing, and frees the old one."""
    pod = Pod(world)
    container_id = pod.start()
    before = listed_states(world)
    engine.api.call("POST", f"/containers/{pod.id}/rename", {"name": f"renamed-{pod.id[:12]}"})
    engine.api.call("POST", f"/containers/{container_id}/rename", {"name": f"renamed-{container_id[:12]}"})
    assert listed_states(world) == before
    world.restart()
    assert listed_states(world) == before
    assert world.client.ContainerStatus(
        pb.ContainerStatusRequest(container_id=container_id), timeout=CALL
    ).status.metadata == pb.ContainerMetadata(name="main")
    with pytest.raises(grpc.RpcError) as caught:
        Pod(world, pod.config)
    assert code(caught.value) is grpc.StatusCode.ALREADY_EXISTS


def test_strangers_name(world: CrishimServer, engine: TestEngine) -> None:
    """A container of somebody else's under the name that a sandbox would get is refused and left alone."""
    config = make_pod(world)
    name = f"k8s_POD_{config.metadata.name}_default_{config.metadata.uid}_0"
    body = {"Image": "crishim.test/busybox:1", "Cmd": ["true"]}
    made = engine.api.call("POST", "/containers/create", {"name": name}, json_body=body)["Id"]
    try:
        with pytest.raises(grpc.RpcError) as caught:
            Pod(world, config)
        assert code(caught.value) is grpc.StatusCode.ALREADY_EXISTS
        assert engine.api.call("GET", f"/containers/{made}/json")["Id"] == made
        assert listed_states(world) == {}
    finally:
        engine.api.call("DELETE", f"/containers/{made}", {"force": "1"})
    Pod(world, config)


def test_pin_taken_away(world: CrishimServer) -> None:
    """Without its pin a sandbox's network could not be given back once it has ended: it is pinned again."""
    pod = Pod(world)
    pin = world.pins / f"crishim-{pod.id}"
    world.stop()
    netns.unpin_sync(str(pin))
    world.start()
    assert netns.is_pinned(str(pin))
    assert listed_states(world) == {pod.id: READY}


# --- the store, damaged while the server is down (trap 18)


def truncate(server: CrishimServer) -> None:
    """The first half of the file."""
    path = server.state / "checkpoint.db"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(server: CrishimServer) -> None:
    """Not a database."""
    (server.state / "checkpoint.db").write_bytes(b"garbage" * 10_000)


def delete(server: CrishimServer) -> None:
    """Nothing at all."""
    for path in server.state.glob("checkpoint.db*"):
        path.unlink()


def unreadable(server: CrishimServer) -> None:
    """Root reads everything, so it is something that nobody can read as a file."""
    path = server.state / "checkpoint.db"
    path.unlink()
    path.mkdir()


def future(server: CrishimServer) -> None:
    """The database of a later crishim."""
    with closing(sqlite3.connect(server.state / "checkpoint.db")) as database:
        database.execute("PRAGMA user_version = 99")


def future_records(server: CrishimServer) -> None:
    """Records of a later crishim."""
    with closing(sqlite3.connect(server.state / "checkpoint.db", isolation_level=None)) as database:
        for key, record in database.execute("SELECT id, record FROM sandboxes").fetchall():
            newer = record.replace(b'"version":1', b'"version":99').replace(b'"version": 1', b'"version": 99')
            assert newer != record
            database.execute("UPDATE sandboxes SET record = ? WHERE id = ?", (newer, key))


def one_record(server: CrishimServer) -> None:
    """One of the records is nonsense."""
    with closing(sqlite3.connect(server.state / "checkpoint.db", isolation_level=None)) as database:
        database.execute("UPDATE sandboxes SET record = ? WHERE id = (SELECT min(id) FROM sandboxes)", (b"\0nonsense",))


DAMAGES = (truncate, garbage, delete, unreadable, future, future_records, one_record)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_store(
    world: CrishimServer, engine: TestEngine, tally: ScriptedPlugin, damage: Callable[[CrishimServer], None]
) -> None:
    """It starts, lists everything, and DEL is called for each pod, the lost one too."""
    pods = [Pod(world, make_pod(world, port_mappings=_ports(number))) for number in (0, 1)]
    lost = Pod(world, make_pod(world, port_mappings=_ports(2)))
    inside = {pod.start(): RUNNING for pod in pods}
    created = pods[0].create(make_container("created"))
    addresses = [pod.status().network.ip for pod in pods]
    world.kill9()
    damage(world)
    engine.api.call("DELETE", f"/containers/{lost.id}", {"force": "1"})
    world.start()
    states = listed_states(world)
    assert {key: state for key, state in states.items() if key not in (lost.id, created)} == (
        inside | {pod.id: READY for pod in pods}
    )
    assert created in states
    assert [pod.status().network.ip for pod in pods] == addresses
    assert [pod.status().metadata for pod in pods] == [pod.config.metadata for pod in pods]
    assert pods[0].say("echo still") == "still\n", "it carries on"
    Pod(world)
    world.remove_all()
    deleted = {call.environment["CNI_CONTAINERID"] for call in tally.calls("DEL") if call.status == 0}
    # Of the lost one, where its record is lost, too, only its pin is left.
    assert {lost.id, *(pod.id for pod in pods)} <= deleted


def _ports(number: int) -> list[pb.PortMapping]:
    return [pb.PortMapping(container_port=80, host_port=18080 + number)]


def _cni(server: CrishimServer) -> CniDirs:
    assert server.cni is not None
    return server.cni


def test_state_folder_of_text(world: CrishimServer) -> None:
    """The rest of the state folder can be damaged, too."""
    pod = Pod(world)
    world.stop()
    for path in Path(world.state).rglob("*"):
        if path.is_file() and not path.name.startswith("checkpoint.db"):
            path.write_bytes(b"\0garbage")
    world.start()
    assert listed_states(world) == {pod.id: READY}


def test_pins_of_nobody_and_of_somebody_else(
    world: CrishimServer, tally: ScriptedPlugin, holder: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """What a pin is left of is detached and unpinned, unless somebody lives in it: another server's running pod."""
    world.stop()
    living, dead = holder(), holder()
    for number, process in enumerate((living, dead)):
        netns.pin_sync(process.pid, netns.pin_path(str(world.pins), str(number) * 64))
    dead.kill()
    dead.wait()
    world.start()
    assert [path.name for path in world.pins.iterdir()] == ["crishim-" + "0" * 64]
    assert [call.environment["CNI_CONTAINERID"] for call in tally.calls("DEL")] == ["1" * 64]
    living.kill()
    living.wait()
    tally.script(DEL={"error": {"code": 11, "msg": "try again"}})
    world.restart()
    assert [path.name for path in world.pins.iterdir()] == ["crishim-" + "0" * 64], "to be tried again"
    tally.script()
    world.restart()
    assert list(world.pins.iterdir()) == []
