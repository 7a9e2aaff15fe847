"""The backend `cni` with real plugins and real namespaces: how attachments are lost by others, and not by us."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cni.errors import StrayLeft
from cni.testing import ScriptedPlugin
from crishim.errors import InvalidArgument, NetworkFailed
from crishim.model import PortMapping
from crishim.network import cni_backend, netns
from crishim.network.api import Attached, PodAttachment, PodNetwork
from crishim.network.select import make_network
from tests.env.cni import make_bridge

pytestmark = pytest.mark.root
BRIDGE = "crtbr1"


class World:
    """A node's CNI folders with one network: the reference bridge, then a plugin that fails as told."""

    def __init__(self, root: Path) -> None:
        self.conf, self.bin, self.state, self.leases = (root / name for name in ("conf", "bin", "state", "leases"))
        self.conf.mkdir()
        self.bin.mkdir()
        self.first = ScriptedPlugin(self.bin, "first")
        self.last = ScriptedPlugin(self.bin, "last")
        bridge = {
            "type": "bridge",
            "bridge": BRIDGE,
            "isGateway": True,
            "ipam": {"type": "host-local", "dataDir": str(self.leases), "subnet": "10.214.0.0/16"},
        }
        ports = {"type": "last", "capabilities": {"portMappings": True}}
        self.write({"cniVersion": "1.0.0", "name": "net", "plugins": [bridge, ports]})

    def write(self, network: dict[str, Any]) -> None:
        (self.conf / "10-net.conflist").write_text(json.dumps(network))

    def network(self) -> PodNetwork:
        """As a new process would have it."""
        return make_network(
            "cni", conf_dir=str(self.conf), bin_dirs=[str(self.bin), "/usr/lib/cni"], state_dir=str(self.state)
        )

    def taken(self) -> list[str]:
        folder = self.leases / "net"
        return sorted(name for name in os.listdir(folder) if name[0].isdigit()) if folder.exists() else []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    if not os.path.exists("/usr/lib/cni/bridge"):
        pytest.fail("the reference plugins are missing in /usr/lib/cni (package containernetworking-plugins)")
    make_bridge(BRIDGE)
    yield World(tmp_path)
    subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)


def veths() -> list[str]:
    return [
        link["ifname"] for link in json.loads(subprocess.check_output(["ip", "-j", "link", "show", "type", "veth"]))
    ]


def pod(path: str, sandbox_id: str = "pod0", **more: Any) -> PodAttachment:
    return PodAttachment(
        sandbox_id=sandbox_id, netns_path=path, name="web", namespace="shop", uid="11-22", annotations={}, **more
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what it waits for happens outside of Python
            await asyncio.sleep(0.005)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def again(attached: Attached) -> Attached:
    """The record as a checkpoint store gives it back."""
    return Attached(**json.loads(json.dumps(vars(attached))) | {"ips": tuple(attached.ips)})


async def test_life(world: World, pinned: str):
    network = world.network()
    assert network.status().ready
    planned = network.plan(pod(pinned))
    attached = await network.attach(pod(pinned), planned)
    assert attached.ips == ("10.214.0.2",)
    assert attached.interface == "eth0"
    await world.network().check(pod(pinned), again(attached))
    await world.network().detach(pod(pinned), again(attached))
    assert (world.taken(), veths()) == ([], [])
    await world.network().detach(pod(pinned), again(attached))


async def test_an_add_that_hangs_and_is_cancelled_is_deleted(world: World, pinned: str):
    """Trap 9."""
    world.last.script(ADD={"sleep": 1000})
    network = world.network()
    planned = network.plan(pod(pinned))
    attaching = asyncio.create_task(network.attach(pod(pinned), planned))
    await until(lambda: bool(world.last.calls("ADD")))
    attaching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(attaching, 20)
    assert world.taken() == ["10.214.0.2"]  # the first plugin had done its part
    (add,) = world.last.calls("ADD")
    assert not Path(f"/proc/{add.pid}").exists()
    await network.detach(pod(pinned), planned)
    assert (world.taken(), veths()) == ([], [])
    (delete,) = world.last.calls("DEL")
    assert delete.status == 0


async def test_a_network_that_cannot_work_does_not_keep_its_pods_when_it_was_put_right(world: World, pinned: str):
    path = world.conf / "10-net.conflist"
    good = path.read_text()
    path.write_text(good.replace("host-local", "nobody-has-this"))
    network = world.network()
    planned = network.plan(pod(pinned))
    with pytest.raises(NetworkFailed, match="nobody-has-this"):
        await network.attach(pod(pinned), planned)
    with pytest.raises(NetworkFailed, match="nobody-has-this"):
        await network.detach(pod(pinned), planned)
    path.write_text(good.replace('"net"', '"another"'))
    with pytest.raises(NetworkFailed, match="nobody-has-this"):
        await world.network().detach(pod(pinned), planned)
    path.write_text(good)
    world.last.script(DEL={"error": {"code": 11, "msg": "not now"}})
    with pytest.raises(NetworkFailed, match="not now"):
        await world.network().detach(pod(pinned), planned)
    world.last.script()
    await world.network().detach(pod(pinned), planned)
    assert (world.taken(), veths()) == ([], [])


async def test_detach_fails_as_long_as_a_stray_does_not_go(world: World, pinned: str, monkeypatch: pytest.MonkeyPatch):
    network = world.network()
    planned = network.plan(pod(pinned))
    monkeypatch.setattr(cni_backend, "end_strays", Mock(side_effect=[StrayLeft("it does not go"), 1]))
    with pytest.raises(NetworkFailed, match="could not be detached from its network: it does not go"):
        await network.detach(pod(pinned), planned)
    assert not world.last.calls("DEL")
    await network.detach(pod(pinned), planned)
    assert world.last.calls("DEL")


async def test_detach_fails_as_long_as_delete_does(world: World, pinned: str):
    """Trap 9: for every ADD one *successful* DEL."""
    network = world.network()
    attached = await network.attach(pod(pinned), network.plan(pod(pinned)))
    world.last.script(DEL={"error": {"code": 11, "msg": "not now"}})
    for _ in range(2):
        with pytest.raises(NetworkFailed, match=r"could not be detached from its network.*last failed DEL: not now"):
            await network.detach(pod(pinned), attached)
    assert world.taken() == ["10.214.0.2"]
    world.last.script()
    await network.detach(pod(pinned), attached)
    assert (world.taken(), veths()) == ([], [])
    assert [call.status for call in world.last.calls("DEL")] == [1, 1, 0]


@pytest.mark.parametrize(
    "step", [{"error": {"code": 100, "msg": "no"}}, {"signal": "SIGKILL"}, {"stdout": "}"}, {"result": {"ips": []}}]
)
async def test_an_add_that_fails_is_deleted(world: World, pinned: str, step: dict[str, Any]):
    world.last.script(ADD=step)
    network = world.network()
    planned = network.plan(pod(pinned))
    with pytest.raises(NetworkFailed):
        await network.attach(pod(pinned), planned)
    assert world.taken()
    await network.detach(pod(pinned), planned)
    assert (world.taken(), veths()) == ([], [])


ATTACH = """
import asyncio, json, sys
from crishim.network.api import Attached, PodAttachment
from crishim.network.select import make_network
given = json.load(sys.stdin)
network = make_network("cni", conf_dir=given["conf"], bin_dirs=given["bin"], state_dir=given["state"])
pod = PodAttachment(sandbox_id="pod0", netns_path=given["netns"], name="web", namespace="shop", uid="11-22")
planned = network.plan(pod)
print(json.dumps(vars(planned)), flush=True)
asyncio.run(network.attach(pod, planned))
"""


def test_killed_while_add_is_open(world: World, pinned: str):
    """Trap 9: the process that attached is gone (-9); another one detaches by what had been checkpointed."""
    world.last.script(ADD={"sleep": 1000})
    given = {
        "conf": str(world.conf),
        "bin": [str(world.bin), "/usr/lib/cni"],
        "state": str(world.state),
        "netns": pinned,
    }
    process = subprocess.Popen([sys.executable, "-c", ATTACH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(given))
    process.stdin.close()
    planned = Attached(**json.loads(process.stdout.readline()) | {"ips": ()})
    asyncio.run(until(lambda: bool(world.last.calls("ADD"))))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert world.taken() == ["10.214.0.2"]
    (add,) = world.last.calls("ADD")
    assert Path(f"/proc/{add.pid}").exists()  # nobody has ended it: its parent is dead
    asyncio.run(world.network().detach(pod(pinned), planned))
    assert (world.taken(), veths()) == ([], [])
    (add,) = world.last.calls("ADD")
    assert add.status is None  # and it cannot finish after DEL any more
    assert "Z" in state(add.pid) or not state(add.pid)


async def test_the_sandbox_process_is_dead(world: World, pinned: str):
    """Trap 10: `pinned` is a namespace whose process has ended already."""
    network = world.network()
    attached = await network.attach(pod(pinned), network.plan(pod(pinned)))
    await network.detach(pod(pinned), attached)
    (delete,) = world.last.calls("DEL")
    assert delete.environment["CNI_NETNS"] == pinned
    assert '"eth0"' not in subprocess.check_output(["nsenter", f"--net={pinned}", "ip", "-j", "link"], text=True)


@pytest.mark.parametrize("gone", ["no pin", "no file"])
async def test_the_namespace_is_gone(world: World, pinned: str, gone: str):
    """Trap 10: after a reboot, or when somebody took the pin away, the address is given back all the same."""
    network = world.network()
    attached = await network.attach(pod(pinned), network.plan(pod(pinned)))
    await netns.unpin(pinned)
    if gone == "no pin":
        Path(pinned).touch()
    await network.detach(pod(pinned), attached)
    assert world.taken() == []
    (delete,) = world.last.calls("DEL")
    assert delete.environment["CNI_NETNS"] == ""
    assert delete.config["prevResult"] == json.loads(attached.result)


async def test_the_configuration_is_gone_or_another(world: World, pinned: str):
    """Trap 11: pods are detached with the configuration that they were attached with."""
    network = world.network()
    attached = await network.attach(pod(pinned), network.plan(pod(pinned)))
    os.unlink(world.conf / "10-net.conflist")
    status = network.status()
    assert (status.ready, status.reason) == (False, "NetworkConfigMissing")
    await network.check(pod(pinned), attached)
    world.write({"cniVersion": "0.4.0", "name": "other", "plugins": [{"type": "first"}]})
    assert network.status().ready
    await network.detach(pod(pinned), attached)
    assert (world.taken(), veths()) == ([], [])
    assert world.first.calls() == []
    assert len(world.last.calls("DEL")) == 1


async def test_arguments_are_the_same_on_every_verb(world: World, pinned: str):
    """Trap 12, in other processes and with other settings too."""
    asked = pod(pinned, port_mappings=(PortMapping(container_port=80, host_port=8080),))
    network = world.network()
    attached = await network.attach(asked, network.plan(asked))
    later = world.network()
    later.set_pod_cidr("10.0.0.0/24")
    bare = pod(pinned)  # whatever the later process knows of the pod
    await later.check(bare, again(attached))
    await later.detach(bare, again(attached))
    calls = world.last.calls()
    assert [call.verb for call in calls] == ["ADD", "CHECK", "DEL"]
    assert {call.environment["CNI_ARGS"] for call in calls} == {
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=pod0;K8S_POD_UID=11-22"
    }
    for name, value in (("CNI_CONTAINERID", "pod0"), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", pinned)):
        assert {call.environment[name] for call in calls} == {value}
    expected = {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}
    assert [call.config["runtimeConfig"] for call in calls] == [expected] * 3


async def test_a_lost_record_is_detached_with_the_present_configuration(world: World, pinned: str):
    network = world.network()
    await network.attach(pod(pinned), network.plan(pod(pinned)))
    await world.network().detach(pod(pinned), None)
    assert (world.taken(), veths()) == ([], [])


async def test_a_pod_of_another_shim_that_asks_for_nonsense_is_detached(world: World, pinned: str):
    """We would not have run it; whoever did is gone, and it must not stay for ever."""
    network = world.network()
    await network.attach(pod(pinned), network.plan(pod(pinned)))
    strange = replace(pod(pinned), annotations={"kubernetes.io/ingress-bandwidth": "much"})
    with pytest.raises(InvalidArgument):
        network.plan(strange)
    await network.detach(strange, None)
    assert (world.taken(), veths()) == ([], [])


async def test_no_lock_is_held_while_add_is_open(world: World, pinned: str, holder, pin_dir: str):
    """Trap 42: a plugin may wait for an answer of ours about another pod, or about this one."""
    other = netns.pin_path(pin_dir, "pod1")
    await netns.pin(holder().pid, other)
    network = world.network()
    gate = world.bin / "go"
    world.last.script(ADD={"until": str(gate)})
    first = asyncio.create_task(network.attach(pod(pinned), network.plan(pod(pinned))))
    await until(lambda: bool(world.last.calls("ADD")))
    world.last.script()
    attached = await network.attach(pod(other, "pod1"), network.plan(pod(other, "pod1")))
    assert network.status().ready
    await network.detach(pod(other, "pod1"), attached)
    assert not first.done()
    gate.touch()
    await network.detach(pod(pinned), await first)
    assert (world.taken(), veths()) == ([], [])


async def test_cancelled_at_random_moments_nothing_is_left(world: World, pinned: str, scaled):
    random.seed(9)
    network = world.network()
    for _ in range(scaled(100)):
        planned = network.plan(pod(pinned))
        try:
            async with asyncio.timeout(random.random() * 0.15):
                await network.attach(pod(pinned), planned)
        except TimeoutError:
            pass
        try:
            async with asyncio.timeout(random.random() * 0.15):
                await network.detach(pod(pinned), planned)
        except TimeoutError:
            await network.detach(pod(pinned), planned)
        assert (world.taken(), veths()) == ([], [])
    await network.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_gc_names_the_valid_attachments(world: World, pinned: str):
    world.write({"cniVersion": "1.1.0", "name": "gcnet", "plugins": [{"type": "first"}]})
    network = world.network()
    attached = await network.attach(pod(pinned), network.plan(pod(pinned)))
    adopted = Attached(backend="", ips=("10.0.0.9",))
    await network.gc({"pod0": attached, "adopted": adopted})
    (call,) = world.first.calls("GC")
    keep = [{"containerID": "adopted", "ifname": "eth0"}, {"containerID": "pod0", "ifname": "eth0"}]
    assert call.config["cni.dev/valid-attachments"] == keep
    world.first.script(GC={"error": {"code": 100, "msg": "cannot"}})
    with pytest.raises(NetworkFailed, match="cannot"):
        await network.gc({})
    world.write({"cniVersion": "1.0.0", "name": "oldnet", "plugins": [{"type": "last"}]})  # a version without GC
    await world.network().gc({})
    assert world.last.calls() == []


async def test_another_backend_was_chosen_meanwhile(world: World, pinned: str):
    network = world.network()
    attached = await network.attach(pod(pinned), network.plan(pod(pinned)))
    none = make_network("none", conf_dir=str(world.conf), bin_dirs=[str(world.bin), "/usr/lib/cni"])
    await none.detach(pod(pinned), attached)
    assert (world.taken(), veths()) == ([], [])


async def test_status_is_what_the_plugins_say(world: World, monkeypatch: pytest.MonkeyPatch):
    """CNI 1.1's STATUS: asked at the start, when the configuration changes, and now and then."""
    monkeypatch.setattr("crishim.network.cni_backend._STATUS_PERIOD", 0.05)
    world.write({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "first"}, {"type": "last"}]})
    world.last.script(STATUS={"error": {"code": 50, "msg": "no address left"}})
    network = world.network()
    await network.start()
    await until(lambda: "no address left" in network.status().message)
    assert network.status().reason == "NetworkStatusFalse"
    world.last.script()
    await until(lambda: network.status().ready)
    world.last.script(STATUS={"error": {"code": 51, "msg": "half"}})
    await until(lambda: not network.status().ready)
    world.write({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "first"}]})
    assert network.status().ready, "which has no STATUS"
    await network.close()
    assert {call.verb for call in world.last.calls()} == {"STATUS"}
