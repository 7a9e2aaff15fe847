"""Real processes: plugins that fail, crash, hang, flood; and what is left of them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cni import CNI, Attachment, ExecInvoker, parse_conflist
from cni import invoke as invoke_module
from cni.errors import InvocationFailed, PluginCrashed, PluginError, PluginNotFound, PluginTimeout
from cni.testing import ScriptedPlugin

ADD = {"CNI_COMMAND": "ADD", "CNI_IFNAME": "eth0", "CNI_NETNS": "/x"}
STDIN = b'{"cniVersion": "1.0.0", "name": "net", "type": "scripted"}'


@pytest.fixture
def plugin(tmp_path: Path) -> ScriptedPlugin:
    return ScriptedPlugin(tmp_path, "scripted")


@pytest.fixture
def invoker(tmp_path: Path) -> ExecInvoker:
    return ExecInvoker([str(tmp_path)], "/usr/bin:/bin")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what it waits for happens outside of Python
            await asyncio.sleep(0.005)


def sleepers(seconds: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if command[:2] == [b"sleep", seconds.encode()] and alive(int(name)):
                found.append(int(name))
    return found


async def test_environment_and_input(plugin: ScriptedPlugin, invoker: ExecInvoker, monkeypatch, tmp_path: Path):
    monkeypatch.setenv("SECRET", "x")
    output = await invoker.invoke("scripted", ADD, STDIN, 10)
    assert json.loads(output)["ips"][0]["address"] == "192.0.2.2/24"
    (call,) = plugin.calls()
    environment = dict(call.environment)
    environment.pop("LC_CTYPE", None)  # Python's own doing
    assert environment == ADD | {"CNI_PATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    assert call.config == json.loads(STDIN)
    assert call.status == 0


async def test_the_error_object_is_told(plugin: ScriptedPlugin, invoker: ExecInvoker):
    plugin.script(ADD={"error": {"code": 11, "msg": "later", "details": "the daemon starts"}})
    with pytest.raises(PluginError) as caught:
        await invoker.invoke("scripted", ADD, STDIN, 10)
    error = caught.value
    assert (error.code, error.message, error.details) == (11, "later", "the daemon starts")
    assert str(error) == "plugin scripted failed ADD: later (the daemon starts) [code 11]"


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ({"exit": 3, "stdout": "", "stderr": "panic: oh\n"}, "exit status 3: panic: oh"),
        ({"exit": 3, "stdout": "usage: …"}, "exit status 3: usage: …"),
        ({"exit": 3, "stdout": '{"code": "x"}'}, 'exit status 3: {"code": "x"}'),
        ({"exit": 3, "stdout": ""}, "exit status 3"),
        ({"signal": "SIGKILL"}, "ended by SIGKILL"),
    ],
)
async def test_crashes_are_told(plugin: ScriptedPlugin, invoker: ExecInvoker, step, text):
    plugin.script(ADD=step)
    with pytest.raises(PluginCrashed) as caught:
        await invoker.invoke("scripted", ADD, STDIN, 10)
    assert str(caught.value) == f"plugin scripted failed ADD: {text}"


async def test_the_end_of_a_long_stderr_is_kept(plugin: ScriptedPlugin, invoker: ExecInvoker):
    plugin.script(ADD={"exit": 1, "stdout": "", "stderr": "x" * 300_000 + "the reason"})
    with pytest.raises(PluginCrashed) as caught:
        await invoker.invoke("scripted", ADD, STDIN, 10)
    assert caught.value.reason.endswith("xthe reason")
    assert len(caught.value.reason) < 20_000


async def test_a_flood_is_refused(plugin: ScriptedPlugin, invoker: ExecInvoker):
    plugin.script(ADD={"stdout": "x" * 5_000_000})
    with pytest.raises(PluginCrashed, match="more than"):
        await invoker.invoke("scripted", ADD, STDIN, 20)


async def test_input_that_nobody_reads_is_no_obstacle(plugin: ScriptedPlugin, invoker: ExecInvoker):
    plugin.script(DEL={"read_stdin": False, "stderr": "y" * 300_000})
    large = json.dumps({"x": "x" * 1_000_000}).encode()
    assert await invoker.invoke("scripted", ADD | {"CNI_COMMAND": "DEL"}, large, 10) == b""


async def test_a_plugin_written_for_the_shell_opens_its_stdin(tmp_path: Path, invoker: ExecInvoker):
    (tmp_path / "shell").write_text("#!/bin/sh\ncat /dev/stdin\n")
    (tmp_path / "shell").chmod(0o755)
    assert await invoker.invoke("shell", ADD, STDIN, 10) == STDIN


async def test_a_child_that_holds_the_pipes_does_not_hold_us(plugin: ScriptedPlugin, invoker: ExecInvoker):
    plugin.script(ADD={"child": 1234.5})
    before = len(os.listdir("/proc/self/fd"))
    try:
        assert await invoker.invoke("scripted", ADD, STDIN, 10)
        await until(lambda: len(os.listdir("/proc/self/fd")) == before)
        assert len(sleepers("1234.5")) == 1  # it succeeded: what it started may be meant to stay
    finally:
        for pid in sleepers("1234.5"):
            os.kill(pid, 9)


async def test_a_plugin_that_hangs_is_ended_with_its_group(plugin: ScriptedPlugin, invoker: ExecInvoker):
    plugin.script(ADD={"child": 1235.5, "sleep": 1000})
    with pytest.raises(PluginTimeout, match=r"no answer within 2 s"):
        await invoker.invoke("scripted", ADD, STDIN, 2)  # in which it has certainly begun
    (call,) = plugin.calls()
    assert not alive(call.pid)
    await until(lambda: not sleepers("1235.5"))


async def test_a_plugin_that_ignores_sigterm_is_killed(plugin: ScriptedPlugin, invoker: ExecInvoker, monkeypatch):
    monkeypatch.setattr(invoke_module, "_TERMINATION_GRACE", 0.1)
    plugin.script(ADD={"ignore": ["SIGTERM"], "sleep": 1000})
    with pytest.raises(PluginTimeout):
        await invoker.invoke("scripted", ADD, STDIN, 2)
    (call,) = plugin.calls()
    assert not alive(call.pid)


async def test_one_that_the_kernel_holds_is_given_up(plugin: ScriptedPlugin, invoker: ExecInvoker, monkeypatch):
    """In uninterruptible sleep no signal ends a process; its pod's verbs go on all the same."""
    plugin.script(ADD={"sleep": 1000})
    monkeypatch.setattr(invoke_module, "_TERMINATION_GRACE", 0.05)
    monkeypatch.setattr(invoke_module, "_DEATH_LIMIT", 0.05)
    monkeypatch.setattr(invoke_module._Process, "_signal", lambda self, number: None)
    async with asyncio.timeout(10):
        with pytest.raises(
            PluginTimeout, match=r"no answer within 0\.5 s, and process \d+ does not end: it waits in the"
        ):
            await invoker.invoke("scripted", ADD, STDIN, 0.5)


async def test_cancelled_at_any_moment_nothing_is_left(plugin: ScriptedPlugin, invoker: ExecInvoker, scaled):
    plugin.script(ADD={"sleep": 1000})
    await asyncio.sleep(0)
    descriptors = len(os.listdir("/proc/self/fd"))
    rounds = scaled(100)
    for round_ in range(rounds):
        task = asyncio.create_task(invoker.invoke("scripted", ADD, STDIN, 100))
        await asyncio.sleep(0.06 * round_ / rounds)
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(not alive(call.pid) for call in plugin.calls())
    await until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelled_while_it_is_ended(plugin: ScriptedPlugin, invoker: ExecInvoker, monkeypatch):
    """A second cancellation does not leave the plugin behind, and a timeout does not swallow one."""
    monkeypatch.setattr(invoke_module, "_TERMINATION_GRACE", 0.2)
    plugin.script(ADD={"ignore": ["SIGTERM"], "sleep": 1000})
    task = asyncio.create_task(invoker.invoke("scripted", ADD, STDIN, 100))
    await until(lambda: bool(plugin.calls()))
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await task
    (call,) = plugin.calls()
    assert not alive(call.pid)


async def test_many_at_once(plugin: ScriptedPlugin, invoker: ExecInvoker):
    outputs = await asyncio.gather(*(invoker.invoke("scripted", ADD, STDIN, 60) for _ in range(20)))
    assert len(outputs) == 20
    assert len(plugin.calls("ADD")) == 20


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../scripted", "/bin/true", "sub/scripted", "missing", "data", "folder"]
)
async def test_only_executables_of_the_folders_are_run(plugin: ScriptedPlugin, invoker: ExecInvoker, tmp_path, name):
    (tmp_path / "data").write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(PluginNotFound):
        invoker.find(name)
    with pytest.raises(PluginNotFound):
        await invoker.invoke(name, ADD, STDIN, 10)
    assert plugin.calls() == []


def test_the_first_folder_wins(plugin: ScriptedPlugin, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    ScriptedPlugin(other, "scripted")
    assert ExecInvoker([str(tmp_path / "missing"), str(other), str(tmp_path)]).find("scripted") == f"{other}/scripted"


async def test_what_the_kernel_does_not_run_is_told(tmp_path: Path, invoker: ExecInvoker):
    (tmp_path / "torn").write_bytes(b"\x7fELF")
    (tmp_path / "torn").chmod(0o755)
    with pytest.raises(InvocationFailed, match="cannot be run: Exec format error"):
        await invoker.invoke("torn", ADD, STDIN, 10)


async def test_an_executable_that_is_being_written_is_waited_for(plugin: ScriptedPlugin, invoker: ExecInvoker):
    """The kernel refuses it with ETXTBSY; an installer that copies plugins on a running node does that."""
    shutil.copy("/bin/true", plugin.path.with_name("native"))
    with plugin.path.with_name("native").open("ab"):
        task = asyncio.create_task(invoker.invoke("native", ADD, STDIN, 10))
        await asyncio.sleep(0.02)
        assert not task.done()
    assert await task == b""


async def test_a_chain_through_the_api(tmp_path: Path):
    first, second = ScriptedPlugin(tmp_path, "first"), ScriptedPlugin(tmp_path, "second")
    text = '{"cniVersion": "0.4.0", "name": "net", "plugins": [{"type": "first"}, {"type": "second"}]}'
    cni = CNI(ExecInvoker([str(tmp_path)]))
    network = parse_conflist(text)
    attachment = Attachment(container_id="c", ifname="eth0", netns="/x")
    result = await cni.add(network, attachment)
    assert result.addresses("eth0") == ("192.0.2.2",)
    (call,) = second.calls("ADD")
    assert call.config["prevResult"] == result.raw
    await cni.delete(network, attachment, result)
    (one,), (two,) = first.calls("DEL"), second.calls("DEL")
    assert one.config["prevResult"] == two.config["prevResult"] == result.raw
    assert await cni.version("first") == ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")


async def test_it_costs_little(invoker: ExecInvoker, tmp_path: Path, record_property):
    shutil.copy("/bin/true", tmp_path / "native")
    took = []
    for _ in range(20):
        began = time.perf_counter()
        await invoker.invoke("native", ADD | {"CNI_COMMAND": "DEL"}, STDIN, 10)
        took.append(time.perf_counter() - began)
    record_property("median_ms", sorted(took)[10] * 1000)
    assert sorted(took)[10] < 1
