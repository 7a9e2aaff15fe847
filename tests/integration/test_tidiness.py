"""What is left is named, whatever it is: in a test world, and on the machine around one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.env import cgroups, firewall, images, linux, machine, tidiness
from tests.env.engine import TestEngine
from tests.env.http_api import EngineApi

Left = contextlib.AbstractContextManager[list[str]]


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextlib.contextmanager
def file() -> Iterator[list[str]]:
    here = Path("/run/crishim-left"), Path("/etc/cni-left"), Path("/var/lib/cni-left")
    for folder in here:
        folder.mkdir()
    yield [f"files: {folder}" for folder in here]
    for folder in here:
        folder.rmdir()


@contextlib.contextmanager
def process() -> Iterator[list[str]]:
    with subprocess.Popen(["sleep", "4713"]) as left:
        yield [f"processes: {left.pid} sleep 4713"]
        left.kill()


@contextlib.contextmanager
def mount(where: Path) -> Iterator[list[str]]:
    linux.mount("tmpfs", where, "tmpfs")
    yield [f"mounts: {where} (tmpfs)"]
    linux.umount(where)


@contextlib.contextmanager
def namespace() -> Iterator[list[str]]:
    pin = Path("/run/crishim-left")
    pin.touch()
    run("unshare", f"--net={pin}", "true")
    yield [f"mounts: {pin} (nsfs)", f"namespaces: net:[{pin.stat().st_ino}]", f"files: {pin}"]
    linux.umount(pin)
    pin.unlink()


@contextlib.contextmanager
def namespace_of_a_process() -> Iterator[list[str]]:
    with subprocess.Popen(["unshare", "--ipc", "sh", "-c", "echo; exec sleep 4714"], stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        left.stdout.readline()
        kind = os.readlink(f"/proc/{left.pid}/ns/ipc")
        yield [f"namespaces: {kind}"]
        left.kill()


@contextlib.contextmanager
def link() -> Iterator[list[str]]:
    run("ip", "link", "add", "left0", "type", "bridge")
    yield ["links: left0"]
    run("ip", "link", "delete", "left0")


@contextlib.contextmanager
def rule() -> Iterator[list[str]]:
    run("iptables", "-N", "LEFT")
    run("iptables", "-A", "LEFT", "-p", "tcp", "--dport", "4715", "-j", "RETURN")
    found = [line for line in firewall.rules() if "LEFT" in line]
    assert len(found) == 2, "the chain and its rule"
    yield [f"firewall rules: {line}" for line in found]
    run("iptables", "-F", "LEFT")
    run("iptables", "-X", "LEFT")


@contextlib.contextmanager
def table() -> Iterator[list[str]]:
    run("nft", "add table inet left; add chain inet left c; add rule inet left c tcp dport 4716 drop")
    yield ["firewall rules: table inet left chain c", "firewall rules: table inet left chain c tcp dport 4716 drop"]
    run("nft", "delete table inet left")


@contextlib.contextmanager
def cgroup() -> Iterator[list[str]]:
    point = next(Path(point) for point, fstype, *_ in linux.mounts() if fstype in {"cgroup", "cgroup2"})
    made = point / "crishim-left"
    made.mkdir()
    yield [f"cgroups: {made}"]
    cgroups.remove_tree(made)


@contextlib.contextmanager
def segment() -> Iterator[list[str]]:
    number = run("ipcmk", "--shmem", "4096").split()[-1]
    yield [f"sysv segments: shm id {number}"]
    run("ipcrm", "--shmem-id", number)


MARK = "CRISHIM_LEFT_BY=this test"
LEAVERS = (file, process, namespace, namespace_of_a_process, link, rule, table, cgroup, segment)


@pytest.mark.parametrize("leave", LEAVERS, ids=[leaver.__name__ for leaver in LEAVERS])
def test_a_world_names_what_is_left(leave: Callable[[], Left], world_folder: Path) -> None:
    before = tidiness.take(world_folder)
    with leave() as expected:
        lines = tidiness.left(before, world_folder, patience=0)
    assert set(expected) <= set(lines)
    kinds = {line.partition(":")[0] for line in expected}
    assert {line.partition(":")[0] for line in lines} - kinds <= {"processes"}, "a namespace may have one"
    assert tidiness.left(before, world_folder) == []


def test_a_mount_is_named(world_folder: Path, tmp_path: Path) -> None:
    before = tidiness.take(world_folder)
    of_machine = machine.take(MARK)
    with mount(tmp_path) as expected:
        assert tidiness.left(before, world_folder, patience=0) == expected
        assert set(expected) <= set(machine.left(of_machine, MARK, patience=0))
    assert tidiness.left(before, world_folder) == []


def test_an_engines_key_is_its_own_and_what_lies_beside_it_is_named(world_folder: Path) -> None:
    other = Path("/etc/docker/daemon.json")
    before = tidiness.take(world_folder)
    with TestEngine(world_folder / "keyed"):
        pass
    other.parent.mkdir(exist_ok=True)
    other.touch()
    lines = tidiness.left(before, world_folder, patience=0)
    other.unlink()
    assert lines == [f"files: {other}"]
    assert tidiness.left(before, world_folder) == []


def test_containers_and_volumes_are_named(engine: TestEngine, busybox_image: str, world_folder: Path) -> None:
    before = tidiness.take(world_folder, engine)
    spec = {"Image": busybox_image, "HostConfig": {"NetworkMode": "none"}}
    made = engine.api.call("POST", "/containers/create", {"name": "left"}, json_body=spec)["Id"]
    engine.api.call("POST", "/volumes/create", json_body={"Name": "left"})
    lines = tidiness.left(before, world_folder, engine, patience=0)
    engine.api.call("DELETE", f"/containers/{made}")
    engine.api.call("DELETE", "/volumes/left")
    assert lines == [f"containers: {made[:12]} /left", "volumes: left"]


@pytest.mark.parametrize("leave", [namespace, link, rule, table, cgroup, segment], ids=lambda leave: leave.__name__)
def test_a_machine_names_what_is_left(leave: Callable[[], Left]) -> None:
    before = machine.take(MARK)
    with leave() as expected:
        lines = machine.left(before, MARK, patience=0)
    assert {line for line in expected if not line.startswith("files: /run/")} <= set(lines)


def test_of_processes_a_machine_names_ours() -> None:
    before = machine.take(MARK)
    name, _, value = MARK.partition("=")
    script = [sys.executable, "-c", "import time; print(flush=True); time.sleep(4716)"]
    with (
        subprocess.Popen(script, env=os.environ | {name: value}, stdout=subprocess.PIPE) as ours,
        subprocess.Popen(script, stdout=subprocess.PIPE) as other,
    ):
        for started in (ours, other):
            assert started.stdout is not None
            started.stdout.readline()
        lines = machine.left(before, MARK, patience=0)
        ours.kill()
        other.kill()
    assert [line for line in lines if line.startswith("processes:")] == [f"processes: {ours.pid} {' '.join(script)}"]


@pytest.mark.parametrize("where", ["checkout", "tmp", "home"])
def test_files_outside_the_cache_are_named(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout of the test's own: another test may write into this one meanwhile."""
    root = tmp_path / "checkout"
    for folder in ("tests", ".cache", "tests/__pycache__", "tests/x_cache"):
        (root / folder).mkdir(parents=True)
    monkeypatch.setattr(machine, "ROOT", root)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    before = machine.take(MARK)
    for cached in (".cache/x", "tests/__pycache__/x", "tests/x_cache/x"):
        (root / cached).touch()
    temporary = Path(os.environ["TMPDIR"])
    left = {"checkout": root / "tests/left", "tmp": temporary / "crishim-left", "home": tmp_path / "home/.left"}[where]
    left.touch()
    lines = machine.left(before, MARK, patience=0)
    left.unlink()
    assert lines == [f"files: {left}"]


def test_the_machines_images_are_named(engine: TestEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ENGINE", engine.socket)
    before = machine.take(MARK)
    made = images.busybox().with_config(Labels={"left": "behind"}).load(engine.api, "left.test/behind:1")
    lines = machine.left(before, MARK, patience=0)
    EngineApi(engine.socket).call("DELETE", f"/images/{made}")
    assert lines == [f"images: {made} left.test/behind:1"]


@pytest.mark.parametrize(("ci", "code", "status"), [("true", 0, 1), ("true", 7, 7), ("", 0, 0)])
def test_what_a_command_leaves_is_named(
    ci: str, code: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not what it installs: the file that a package owns, a daemon's excepted, is asked for."""
    home, programs = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    (programs / "dpkg-query").write_text("#!/bin/sh\ncase $2 in */installed) ;; *) exit 1 ;; esac\n")
    (programs / "dpkg-query").chmod(0o755)
    monkeypatch.setattr(machine, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(machine, "PATIENCE", 0.3)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CI", ci)
    script = f"touch ~/installed ~/forgotten; sleep 4717 & exit {code}"
    assert machine.main(["--", "sh", "-c", script]) == status
    first, *lines = capfd.readouterr().err.splitlines()
    assert first == "left on the machine meanwhile:"
    [process] = [line for line in lines if line.startswith("  processes: ")]
    os.kill(int(process.split()[1]), signal.SIGKILL)
    assert process.endswith(" sleep 4717")
    assert [line for line in lines if line.startswith("  files: ")] == [f"  files: {home}/forgotten"]


def test_rules_that_cannot_be_listed_do_not_pass_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nft").write_text("#!/bin/sh\necho no such kernel >&2; exit 1\n")
    (tmp_path / "nft").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert "-nft cannot list: no such kernel" in firewall.rules()


def test_rules_are_flat() -> None:
    text = (
        "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy accept;\n"
        "\t\tip saddr 192.0.2.1 drop\n\t}\n\tchain MADE {\n\t\treturn\n\t}\n}\ntable inet empty {\n}\n"
    )
    assert firewall.flatten(text) == [
        "table ip filter chain INPUT ip saddr 192.0.2.1 drop",
        "table ip filter chain MADE",
        "table ip filter chain MADE return",
    ]
