"""Pods on a network of real CNI plugins, and plugins that hang, fail, and ask back (traps 9 to 12 and 42)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from cni.testing import ScriptedPlugin
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import AsyncCRIClient
from tests.env.cache import ROOT
from tests.env.cni import CniDirs
from tests.env.engine import TestEngine
from tests.integration.server.pods import (
    NOTREADY,
    READY,
    Pod,
    container_status,
    linux,
    listed_states,
    make_container,
    make_pod,
    pod_linux,
    read_log,
)
from tests.integration.server.residue import Quiet, assert_nothing_left, leases, unreleased
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import fetch, until

pytestmark = pytest.mark.engine
HTTPD = ["sh", "-c", "mkdir /tmp/www; hostname >/tmp/www/index.html; exec httpd -f -p 80 -h /tmp/www"]


@pytest.fixture
def world(
    new_server: Callable[..., CrishimServer], engine: TestEngine, bridged: CniDirs, tally: ScriptedPlugin
) -> Iterator[CrishimServer]:
    """A server with a network. After the test all that is listed is removed, and nothing is left."""
    server = new_server(cni=bridged)
    server.start()
    quiet = Quiet.of(server)
    yield server
    tally.script()
    server.remove_all()
    assert_nothing_left(server, engine.api, quiet)
    assert unreleased(tally) == []


def run(server: CrishimServer, config: pb.PodSandboxConfig, limit: float) -> grpc.StatusCode:
    """The code with which RunPodSandbox fails."""
    with pytest.raises(grpc.RpcError) as caught:
        server.client.RunPodSandbox(pb.RunPodSandboxRequest(config=config), timeout=limit)
    return code(caught.value)


def checked(pod: Pod) -> str:
    """What a verbose status says of the pod's network."""
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=pod.id, verbose=True)
    answer = pod.server.client.PodSandboxStatus(request, timeout=CALL)
    told: str = json.loads(answer.info["info"])["network"]["check"]
    return told


def test_addresses_and_ports(world: CrishimServer) -> None:
    """The address that is told is the pod's; pods reach each other, and the host reaches a mapped port."""
    ports = [
        pb.PortMapping(container_port=80, host_port=18081),
        pb.PortMapping(container_port=81, host_port=0),
        pb.PortMapping(protocol=pb.UDP, container_port=53, host_port=18053),
    ]
    pod, other = Pod(world, make_pod(world, port_mappings=ports)), Pod(world)
    pod.start(make_container("web", command=HTTPD))
    ip = pod.status().network.ip
    assert checked(other) == "ok"  # of a pod with ports the reference portmap says no where there is no IPv6
    assert f"inet {ip}/" in pod.say("ip addr show eth0")
    assert ip != other.status().network.ip
    name = pod.config.metadata.name
    fetched = other.say(f"until wget -qO- http://{ip}/; do sleep 0.1; done")
    assert fetched.strip() == name
    assert fetch(f"http://{ip}/").strip() == name
    assert fetch("http://10.88.0.1:18081/").strip() == name, "the port on the host"
    world.restart()
    assert pod.status().network.ip == ip
    pod.stop()
    assert not pod.status().HasField("network")


def test_arguments(world: CrishimServer, tally: ScriptedPlugin) -> None:
    """The same on ADD and DEL, over a restart of ours and a change of the configuration."""
    pod = Pod(world)
    world.restart()
    assert world.cni is not None
    for path in world.cni.conf.iterdir():
        path.unlink()
    pod.remove()
    add, delete = tally.calls("ADD", "DEL")
    assert (add.verb, delete.verb) == ("ADD", "DEL")
    for name in ("CNI_ARGS", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"):
        assert add.environment[name] == delete.environment[name], name
    args = dict(item.split("=", 1) for item in add.environment["CNI_ARGS"].split(";"))
    metadata = pod.config.metadata
    assert args == {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": "default",
        "K8S_POD_NAME": metadata.name,
        "K8S_POD_UID": metadata.uid,
        "K8S_POD_INFRA_CONTAINER_ID": pod.id,
    }


def test_configuration_emptied(world: CrishimServer) -> None:
    """NetworkReady turns false with its reason; host-network pods start all the same, and running pods end."""
    pod = Pod(world)
    assert world.cni is not None
    conflist = next(world.cni.conf.iterdir())
    text = conflist.read_text()
    conflist.unlink()
    condition = world.condition("NetworkReady")
    assert not condition.status
    assert condition.reason == "NetworkPluginNotReady"
    assert str(world.cni.conf) in condition.message
    assert world.condition().status, "the runtime itself is"
    assert run(world, make_pod(world), CALL) is grpc.StatusCode.UNAVAILABLE
    on_host = pod_linux(namespace_options=pb.NamespaceOption(network=pb.NODE))
    host_pod = Pod(world, make_pod(world, linux=on_host, hostname=""))
    assert host_pod.say("echo up", linux=linux(namespace_options=pb.NamespaceOption(network=pb.NODE))) == "up\n"
    pod.remove()
    assert leases(world.cni) == []
    broken = world.cni.conf / "05-broken.conflist"
    broken.write_text('{"name": }')
    conflist.write_text(text)
    condition = world.condition("NetworkReady")
    assert condition.status, "the next one is used"
    assert condition.reason == "NetworkConfigPassedOver"
    assert f"{broken}: line 1 column 10: Expecting value" in condition.message
    Pod(world)
    broken.unlink()


def test_add_fails(world: CrishimServer, tally: ScriptedPlugin) -> None:
    """What was done before it is undone, and the name is free."""
    tally.script(ADD={"error": {"code": 11, "msg": "no more widgets"}})
    config = make_pod(world)
    with pytest.raises(grpc.RpcError, match="no more widgets"):
        Pod(world, config)
    assert listed_states(world) == {}
    assert world.cni is not None
    assert leases(world.cni) == []
    tally.script()
    assert Pod(world, config).status().state == READY


@pytest.mark.parametrize("what", ["deadline", "stop", "kill"])
async def test_add_is_cut_off(world: CrishimServer, tally: ScriptedPlugin, what: str, tmp_path: Path) -> None:
    """By the caller's deadline, by StopPodSandbox, by our own death: DEL follows, with the namespace still there."""
    go = tmp_path / "go"
    tally.script(ADD={"until": str(go), "ignore": ["SIGTERM"]})
    config = make_pod(world)
    limit = 2 if what == "deadline" else CALL
    async with AsyncCRIClient(world.endpoint) as client:
        running = asyncio.ensure_future(
            _code(client.RunPodSandbox(pb.RunPodSandboxRequest(config=config), timeout=limit))
        )
        await asyncio.to_thread(until, lambda: tally.calls("ADD"), "ADD")
        listed = listed_states(world)
        assert list(listed.values()) == [NOTREADY]
        sandbox_id = next(iter(listed))
        if what == "stop":
            request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
            await asyncio.to_thread(world.client.StopPodSandbox, request, CALL)
            assert await running is grpc.StatusCode.FAILED_PRECONDITION
        elif what == "deadline":
            assert await running is grpc.StatusCode.DEADLINE_EXCEEDED
        else:
            await asyncio.to_thread(world.kill9)
            assert await running is grpc.StatusCode.UNAVAILABLE
            tally.script()
            await asyncio.to_thread(world.start)
            assert set(listed_states(world).values()) <= {NOTREADY}
    tally.script()
    go.touch()
    await asyncio.to_thread(world.remove_all)
    await asyncio.to_thread(until, lambda: listed_states(world) == {}, "its end")
    deleted = [call for call in tally.calls("DEL") if call.environment["CNI_CONTAINERID"] == sandbox_id]
    assert deleted
    assert deleted[0].environment["CNI_NETNS"], "plugins need the namespace"
    assert (await asyncio.to_thread(Pod, world, config)).status().state == READY


def test_del_fails(world: CrishimServer, tally: ScriptedPlugin) -> None:
    """StopPodSandbox and RemovePodSandbox fail as long as it does; nothing that it needs is taken away."""
    pod = Pod(world)
    pod.start()
    tally.script(DEL={"error": {"code": 11, "msg": "not now"}})
    for _ in range(2):
        with pytest.raises(grpc.RpcError, match="not now"):
            pod.stop()
        assert listed_states(world)[pod.id] == NOTREADY
    with pytest.raises(grpc.RpcError, match="not now"):
        world.client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=pod.id), timeout=CALL)
    assert (world.pins / f"crishim-{pod.id}").exists()
    world.restart()
    assert listed_states(world)[pod.id] == NOTREADY
    with pytest.raises(grpc.RpcError, match="not now"):
        pod.stop()
    tally.script()
    pod.remove()
    assert listed_states(world) == {}


async def test_plugin_that_asks_back(world: CrishimServer, tally: ScriptedPlugin, tmp_path: Path) -> None:
    """While ADD is open everything about the pod, and about others, is answered at once."""
    go = tmp_path / "go"
    other = await asyncio.to_thread(Pod, world)
    tally.script(ADD={"until": str(go)})
    async with AsyncCRIClient(world.endpoint) as client:
        running = client.RunPodSandbox(pb.RunPodSandboxRequest(config=make_pod(world)), timeout=CALL)
        task = asyncio.ensure_future(_code(running))
        await asyncio.to_thread(until, lambda: tally.calls("ADD")[1:], "the second ADD")
        listed = (await client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=CALL)).items
        for sandbox in listed:
            # Verbose, one that is READY asks the plugins (CHECK), which takes as long as they do.
            request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox.id, verbose=sandbox.id != other.id)
            await client.PodSandboxStatus(request, timeout=CALL)
        await client.Status(pb.StatusRequest(verbose=True), timeout=CALL)
        await client.ListContainers(pb.ListContainersRequest(), timeout=CALL)
        assert not task.done()
        assert {sandbox.id: sandbox.state for sandbox in listed}[other.id] == READY
        assert len(listed) == 2
        await asyncio.to_thread(other.say, "echo on")
        go.touch()
        assert await task is None
    states = listed_states(world)
    assert list(states.values()) == [READY, READY]


DAEMON = """
import json, os, sys, time
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient
ask, endpoint = sys.argv[1:]
print("up", flush=True)
while not os.path.exists(ask):
    time.sleep(0.02)
asked = json.load(open(ask))
own = os.stat("/proc/self/ns/net").st_ino
descriptor = os.open(asked["netns"], os.O_RDONLY)
told = {"another": os.fstat(descriptor).st_ino != own, "links": []}
import ctypes
assert ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000) == 0, ctypes.get_errno()
told["links"] = open("/proc/thread-self/net/dev").read().count(":")
with CRIClient(endpoint) as client:
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=asked["id"])
    told["name"] = client.PodSandboxStatus(request, timeout=30).status.metadata.name
    told["listed"] = [item.id for item in client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=30).items]
    told["containers"] = len(client.ListContainers(pb.ListContainersRequest(), timeout=30).containers)
print(json.dumps(told), flush=True)
"""


async def test_a_daemon_in_a_pod_of_ours(world: CrishimServer, tally: ScriptedPlugin, tmp_path: Path) -> None:
    """A network's daemon runs in a host-network pod with no more than the folder of the pins, HostToContainer.

    While ADD is open it opens the new pod's namespace, which appeared after its start, and asks us about the pod.
    """
    go, ask = tmp_path / "go", tmp_path / "ask"
    on_host = pb.NamespaceOption(network=pb.NODE)
    config = make_pod(world, linux=pod_linux(namespace_options=on_host, privileged=True), hostname="")
    daemon = await asyncio.to_thread(Pod, world, config)
    # The machine's Python; nothing of what is mounted later comes in but by the folder of the pins.
    parts = {"/usr", "/lib", "/lib64", sys.base_prefix, str(ROOT), str(tmp_path), str(world.socket)}
    mounts = [pb.Mount(host_path=part, container_path=part, readonly=part != str(world.socket)) for part in parts]
    hosts = pb.PROPAGATION_HOST_TO_CONTAINER
    mounts.append(pb.Mount(host_path=str(world.pins), container_path=str(world.pins), propagation=hosts))
    command = [sys.executable, "-c", DAEMON, str(ask), world.endpoint]
    envs = [pb.KeyValue(key="PYTHONPATH", value=str(ROOT).encode())]
    container_id = await asyncio.to_thread(
        daemon.start,
        make_container(
            "daemon",
            command=command,
            envs=envs,
            mounts=mounts,
            linux=linux(namespace_options=on_host, privileged=True),
        ),
    )
    log = Path((await asyncio.to_thread(container_status, world, container_id)).log_path)
    await asyncio.to_thread(until, lambda: log.exists() and "up" in read_log(log), "the daemon")
    tally.script(ADD={"until": str(go)})
    config = make_pod(world)
    async with AsyncCRIClient(world.endpoint) as client:
        task = asyncio.ensure_future(_code(client.RunPodSandbox(pb.RunPodSandboxRequest(config=config), timeout=CALL)))
        (add,) = await asyncio.to_thread(until, lambda: tally.calls("ADD"), "ADD")
        sandbox_id = add.environment["CNI_CONTAINERID"]
        draft = tmp_path / "draft"
        draft.write_text(json.dumps({"netns": add.environment["CNI_NETNS"], "id": sandbox_id}))
        draft.rename(ask)
        status = await asyncio.to_thread(daemon.ended, container_id)
        go.touch()
        assert await task is None
    said = read_log(log)
    assert status.exit_code == 0, said
    told = json.loads(said.splitlines()[-1])
    assert told["another"]
    assert told["links"] >= 2, "lo and the pod's own"
    assert told["name"] == config.metadata.name
    assert set(told["listed"]) == {daemon.id, sandbox_id}
    assert told["containers"] == 1


async def _code(call: object) -> grpc.StatusCode | None:
    """The code of a call; None when it succeeds."""
    try:
        await call  # type: ignore[misc]
    except grpc.RpcError as error:
        return code(error)
    return None
