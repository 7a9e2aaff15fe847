"""What the embedded plugins promise beyond the reference: nothing is left, whatever goes wrong and whenever."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cni import CNI, Attachment, ExecInvoker, NetworkConfList, parse_conflist, versions
from cni.errors import Code, InvocationFailed, PluginError, PluginTimeout
from cni.plugins import registry
from cni.plugins.bridge import container, host
from cni.plugins.bridge import plugin as bridge_plugin
from cni.plugins.nft import masquerade
from cni.plugins.registry import EMBEDDED, EmbeddedInvoker
from cni.plugins.rtnl import Route
from tests.integration.cni.plugins import observed

pytestmark = pytest.mark.root


def network_of(bridge: str, data: Path, version: str = "1.1.0", **more: Any) -> NetworkConfList:
    ipam = {
        "type": "host-local",
        "dataDir": str(data),
        "ranges": [[{"subnet": "10.81.0.0/24"}], [{"subnet": "fd81::/64"}]],
    }
    plugin = {"type": "bridge", "bridge": bridge, "isDefaultGateway": True, "ipMasq": True, "ipam": ipam, **more}
    return parse_conflist(json.dumps({"cniVersion": version, "name": "own", "plugins": [plugin]}))


def attachment_of(netns: str, container_id: str = "c1") -> Attachment:
    return Attachment(container_id=container_id, ifname="eth0", netns=netns)


def leases(data: Path) -> set[str]:
    folder = data / "own"
    return {path.name for path in folder.iterdir() if path.name[0] in "1f"} if folder.exists() else set()


def masqueraded() -> str:
    return subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout


SERVE = "import socket; s=socket.create_server(('::',7), family=10, dualstack_ipv6=True); print(flush=True); s.accept()"
CONNECT = """
import socket, struct, sys
connection = socket.create_connection((sys.argv[1], 7), timeout=60)
(again,) = struct.unpack_from("=I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)
sys.exit(again)
"""
"""Its status is `tcpi_total_retrans`: what was not answered at once was sent again, after a second."""


def reaches(source: str, target: str, address: str) -> bool:
    """Whether a connection is made at the first try, from namespace to namespace ("": the host)."""
    there, here = ([] if not path else ["nsenter", f"--net={path}"] for path in (target, source))
    with subprocess.Popen([*there, sys.executable, "-c", SERVE], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        done = subprocess.run([*here, sys.executable, "-c", CONNECT, address], check=False)
        server.kill()
    return done.returncode == 0


class World:
    """What an attachment leaves on the host, to be compared."""

    def __init__(self, data: Path, bridge: str) -> None:
        self._data = data
        self._before = observed.links() | {bridge}

    def assert_clean(self) -> None:
        assert observed.links() <= self._before
        assert leases(self._data) == set()
        assert '"own ' not in masqueraded()


async def test_addresses_work_at_once(new_netns: Callable[[], str], bridge_name: str, tmp_path: Path) -> None:
    """Host to container, container to host and to another container, IPv4 and IPv6, without waiting for anything."""
    invoker = EmbeddedInvoker()
    cni, network = CNI(invoker), network_of(bridge_name, tmp_path)
    paths = [new_netns(), new_netns()]
    results = [await cni.add(network, attachment_of(path, f"c{n}")) for n, path in enumerate(paths)]
    for ip in (0, 1):
        assert reaches(paths[0], paths[1], results[1].ips[ip].ip)
        assert reaches("", paths[0], results[0].ips[ip].ip)
        assert reaches(paths[0], "", results[0].ips[ip].gateway)
    for n, path in enumerate(paths):
        await cni.delete(network, attachment_of(path, f"c{n}"))
        await invoker.settle(f"c{n}")


async def test_an_address_that_is_used_again_has_its_mac_again(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path
) -> None:
    """So neighbours believe nothing stale."""
    invoker = EmbeddedInvoker()
    cni, network = CNI(invoker), network_of(bridge_name, tmp_path)
    macs = []
    for name in ("c1", "c2"):
        attachment = Attachment(container_id=name, ifname="eth0", netns=new_netns(), args={"IP": "10.81.0.9"})
        result = await cni.add(network, attachment)
        assert result.ips[0].ip == "10.81.0.9"
        macs.append(result.interfaces[2].mac)
        await cni.delete(network, attachment, result)
    assert macs[0] == macs[1]
    for name in ("c1", "c2"):
        await invoker.settle(name)
    assert "10.81.0.9" not in subprocess.run(["ip", "neigh"], capture_output=True, text=True, check=True).stdout


async def test_a_hundred_at_once(new_netns: Callable[[], str], bridge_name: str, tmp_path: Path, scaled: Any) -> None:
    """Ten at a time: no failure, no address twice, and no thread, descriptor, link or lease afterwards."""
    count, world = scaled(200), World(tmp_path, bridge_name)
    invoker = EmbeddedInvoker()
    cni, network, turn = CNI(invoker), network_of(bridge_name, tmp_path), asyncio.Semaphore(10)
    paths = [new_netns() for _ in range(count)]
    descriptors = len(os.listdir("/proc/self/fd"))

    async def attach(number: int) -> str:
        async with turn:
            result = await cni.add(network, attachment_of(paths[number], f"c{number}"))
            return result.ips[0].address

    addresses = await asyncio.gather(*(attach(number) for number in range(count)))
    assert len(set(addresses)) == count
    await cni.gc(network, [("c0", "eth0")])
    assert len(leases(tmp_path)) == 2
    assert masqueraded().count('"own ') == 2
    for number in range(count):
        await cni.delete(network, attachment_of(paths[number], f"c{number}"))
    for number in range(count):
        await invoker.settle(f"c{number}")
    world.assert_clean()
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cni-")]


async def test_cancelled_at_any_moment(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path, scaled: Any
) -> None:
    """After the DEL that follows, and mostly before it, nothing is left; the namespace can be attached again."""
    world, path = World(tmp_path, bridge_name), new_netns()
    invoker = EmbeddedInvoker()
    cni, network = CNI(invoker), network_of(bridge_name, tmp_path)
    for number in range(scaled(200)):
        task = asyncio.create_task(cni.add(network, attachment_of(path)))
        await asyncio.sleep(random.Random(number).uniform(0, 0.008))
        task.cancel()
        await asyncio.wait([task])
        if task.cancelled():
            await asyncio.shield(cni.delete(network, attachment_of(path)))
        else:
            await cni.delete(network, attachment_of(path), task.result())
        await invoker.settle("c1")
        world.assert_clean()


@pytest.mark.parametrize(
    ("module", "step"),
    [
        (host, "ensure_bridge"),
        (host, "connect"),
        (container, "configure"),
        (host, "lead_to"),
        (masquerade, "add"),
        (bridge_plugin, "_result"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_step_fails_and_nothing_is_left(
    module: Any, step: str, new_netns: Callable[[], str], bridge_name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """Without any DEL."""
    world, path, real = World(tmp_path, bridge_name), new_netns(), getattr(module, step)

    def fail(*arguments: Any) -> None:
        real(*arguments)
        raise OSError(5, "made to fail")

    monkeypatch.setattr(module, step, fail)
    with pytest.raises(PluginError, match="made to fail") as caught:
        await CNI(EmbeddedInvoker()).add(network_of(bridge_name, tmp_path), attachment_of(path))
    assert caught.value.code == Code.IO_FAILURE
    world.assert_clean()
    with pytest.raises(subprocess.CalledProcessError):
        observed.is_up(path, "eth0")


async def test_a_step_that_hangs_is_bounded(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """The caller is told in time; the next verb waits for what hung, and then nothing is left."""
    monkeypatch.setattr(registry, "_GRACE", 0.05)
    world, path, real, go = World(tmp_path, bridge_name), new_netns(), host.ensure_bridge, threading.Event()

    def hang(*arguments: Any) -> Any:  # the first step: nothing asks before whether the call is still wanted
        made = real(*arguments)
        go.wait()
        return made

    monkeypatch.setattr(host, "ensure_bridge", hang)
    invoker, network = EmbeddedInvoker(), network_of(bridge_name, tmp_path)
    with pytest.raises(PluginTimeout, match="no answer"):
        await CNI(invoker, timeout=0.2).add(network, attachment_of(path))
    with pytest.raises(PluginTimeout, match="an earlier call has not ended"):
        await CNI(invoker, timeout=0.1).delete(network, attachment_of(path))
    go.set()
    await CNI(invoker).delete(network, attachment_of(path))
    await invoker.settle("c1")
    world.assert_clean()


async def test_deferred_work_that_failed_is_told_and_done_again(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    world, path = World(tmp_path, bridge_name), new_netns()
    invoker, network = EmbeddedInvoker(), network_of(bridge_name, tmp_path)
    await CNI(invoker).add(network, attachment_of(path))
    with monkeypatch.context() as patch:
        patch.setattr(Route, "change_unless", _refuse)
        patch.setattr(host, "silence", lambda *_: None)
        await CNI(invoker).delete(network, attachment_of(path))
        with pytest.raises(InvocationFailed, match="made to fail"):
            await invoker.settle("c1")
    await CNI(invoker).delete(network, attachment_of(path))
    await invoker.settle("c1")
    world.assert_clean()


def _refuse(*_: Any) -> bool:
    raise OSError(5, "made to fail")


async def test_check_says_what_is_not_as_it_was(new_netns: Callable[[], str], bridge_name: str, tmp_path: Path) -> None:
    path, invoker = new_netns(), EmbeddedInvoker()
    cni, network = CNI(invoker), network_of(bridge_name, tmp_path)
    attachment = attachment_of(path)
    result = await cni.add(network, attachment)
    await cni.check(network, attachment, result)
    await cni.status(network)
    inside, port = ["nsenter", f"--net={path}", "ip"], result.interfaces[1].name
    for undo, words, redo in (
        (
            [*inside, "route", "del", "default"],
            "route to 0.0.0.0/0",
            [*inside, "route", "add", "default", "via", "10.81.0.1"],
        ),
        ([*inside, "-6", "addr", "flush", "dev", "eth0", "scope", "global"], "address fd81::2", None),
        (["ip", "link", "set", port, "down"], f"{port} is no port", ["ip", "link", "set", port, "up"]),
        (["ip", "link", "set", port, "type", "bridge_slave", "hairpin", "on"], "hairpinMode", None),
        (["ip", "link", "del", bridge_name], f"{bridge_name} is gone", None),
    ):
        subprocess.run(undo, check=True)
        with pytest.raises(PluginError, match=words):
            await cni.check(network, attachment, result)
        if redo:
            subprocess.run(redo, check=True)
    await cni.delete(network, attachment, result)
    await invoker.settle("c1")


async def test_the_host_is_never_attached(bridge_name: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="the host's network namespace") as caught:
        await CNI(EmbeddedInvoker()).add(network_of(bridge_name, tmp_path), attachment_of("/proc/self/ns/net"))
    assert caught.value.code == Code.UNKNOWN_CONTAINER
    assert leases(tmp_path) == set()


async def test_as_executables(new_netns: Callable[[], str], bridge_name: str, tmp_path: Path) -> None:
    """The same plugins, run as programs: one attaches, the embedded ones detach."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for kind, place in EMBEDDED.items():
        program = folder / kind
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -m {place.partition(':')[0]}\n")
        program.chmod(0o755)
    world, path, network = World(tmp_path, bridge_name), new_netns(), network_of(bridge_name, tmp_path)
    programs, invoker = CNI(ExecInvoker([str(folder)])), EmbeddedInvoker()
    result = await programs.add(network, attachment_of(path))
    assert [ip.ip for ip in result.ips] == ["10.81.0.2", "fd81::2"]
    await CNI(invoker).check(network, attachment_of(path), result)
    with pytest.raises(PluginError, match="vlan: this plugin has no such option") as caught:
        await programs.add(network_of(bridge_name, tmp_path, vlan=5), attachment_of(path, "c2"))
    assert caught.value.code == Code.UNSUPPORTED_FIELD
    assert caught.value.details == "its value is 5"
    await programs.delete(network, attachment_of(path), result)
    world.assert_clean()
    assert await programs.version("loopback") == await CNI(invoker).version("loopback") == versions.SUPPORTED


LEASING = """
import sys
from cni.plugins import dispatch
from cni.plugins.host_local import HostLocal
import json
stdin = json.dumps({"cniVersion": "1.0.0", "name": "own", "type": "host-local",
    "ipam": {"type": "host-local", "dataDir": sys.argv[1], "ranges": [[{"subnet": "10.82.0.0/16"}]]}}).encode()
print(flush=True)
for number in range(100000):
    environment = {"CNI_CONTAINERID": f"{sys.argv[2]}-{number}", "CNI_IFNAME": "eth0", "CNI_NETNS": "/none"}
    dispatch.run(HostLocal(), environment | {"CNI_COMMAND": "ADD"}, stdin)
    if number % 2:
        dispatch.run(HostLocal(), environment | {"CNI_COMMAND": "DEL"}, stdin)
"""


def test_leases_survive_sigkill(tmp_path: Path, scaled: Any) -> None:
    """At any moment: every lease has its owner, no lock stays, and the next one goes on."""
    for number in range(scaled(50)):
        command = [sys.executable, "-c", LEASING, str(tmp_path), f"r{number}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(random.Random(number).uniform(0.0005, 0.05))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            else:
                pytest.fail("it ended by itself")
        owners = [(tmp_path / "own" / name).read_bytes() for name in leases(tmp_path)]
        assert all(owner.endswith(b"\r\neth0") for owner in owners)
        assert len(set(owners)) == len(owners)


async def test_what_the_kernel_refuses_is_named(new_netns: Callable[[], str], bridge_name: str, tmp_path: Path) -> None:
    """A route by a gateway that cannot be reached."""
    world, path = World(tmp_path, bridge_name), new_netns()
    ipam = {
        "type": "host-local",
        "dataDir": str(tmp_path),
        "ranges": [[{"subnet": "10.81.0.0/24"}]],
        "routes": [{"dst": "192.0.2.0/24", "gw": "198.51.100.1"}],
    }
    with pytest.raises(PluginError) as caught:
        await CNI(EmbeddedInvoker()).add(network_of(bridge_name, tmp_path, ipam=ipam), attachment_of(path))
    assert caught.value.message == f"eth0 in {path}: the route to 192.0.2.0/24 by 198.51.100.1 cannot be added"
    assert caught.value.details == "Network is unreachable"
    world.assert_clean()


ATTACHING = """
import asyncio, sys
from cni import CNI, Attachment, parse_conflist
from cni.plugins.registry import EmbeddedInvoker, load
async def main():
    load("bridge")
    cni, network = CNI(EmbeddedInvoker()), parse_conflist(sys.argv[1])
    attachment = Attachment(container_id="c1", ifname="eth0", netns=sys.argv[2])
    print(flush=True)
    while True:
        await cni.add(network, attachment)
        await cni.delete(network, attachment)
asyncio.run(main())
"""


async def test_a_runtime_that_is_killed_leaves_nothing_that_delete_does_not_find(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path, scaled: Any
) -> None:
    """SIGKILL at any moment of ADD and DEL; the successor runs DEL with what it knows, without a result."""
    world, path, network = World(tmp_path, bridge_name), new_netns(), network_of(bridge_name, tmp_path)
    for number in range(scaled(40)):
        command = [sys.executable, "-c", ATTACHING, network.text, path]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        await process.stdout.readline()
        await asyncio.sleep(random.Random(number).uniform(0.001, 0.06))
        process.kill()
        await process.wait()
        invoker = EmbeddedInvoker()
        await CNI(invoker).delete(network, attachment_of(path))
        await invoker.settle("c1")
        world.assert_clean()
    result = await CNI(invoker).add(network, attachment_of(path))
    await CNI(invoker).delete(network, attachment_of(path), result)
    await invoker.settle("c1")
