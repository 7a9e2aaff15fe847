"""What is decided before anything is changed: which engine, which file, which runtimes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from crishim.engine.simulated.facts import default_facts
from crishim.engine.values import EngineFacts
from crishim.front.install.changes import removal
from crishim.front.install.engine_process import DAEMON_JSON, EngineProcess, find_engine
from crishim.front.install.files import program_bytes, replace_file
from crishim.front.install.plan import Places, make_plan
from crishim.front.install.problems import FrontProblem
from crishim.front.program.build import elf_path


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "state", Path("/run/crishim/front.sock"))


@pytest.fixture
def process(tmp_path: Path) -> EngineProcess:
    (tmp_path / "bin").mkdir()
    for name in ("runc", "crun"):
        (tmp_path / "bin" / name).touch(mode=0o755)
    return EngineProcess(7, ("--config-file", "daemon.json"), f"{tmp_path}/bin", str(tmp_path))


def facts(**programs: tuple[str, ...]) -> EngineFacts:
    names = ("io.containerd.runc.v2", "kata", "runc", *programs)
    known = {"io.containerd.runc.v2": ("runc",), "runc": ("runc",), **programs}
    return replace(default_facts("/"), runtimes=names, programs=known)


# --- the plan


def test_each_runtime_that_is_a_program_gets_a_twin(tmp_path: Path, process: EngineProcess, places: Places) -> None:
    plan = make_plan(facts(crun=("crun", "--a", "b c"), gone=("/no/such",)), process, places)
    assert plan.file == tmp_path / "daemon.json"
    assert plan.before is None
    assert {twin.name: twin.conf.arguments for twin in plan.fresh} == {
        "crishim-runc": (),
        "crishim-crun": ("--a", "b c"),
    }
    assert {twin.conf.runtime for twin in plan.fresh} == {f"{tmp_path}/bin/runc", f"{tmp_path}/bin/crun"}
    assert {twin.conf.desk for twin in plan.fresh} == {"/run/crishim/front.sock"}
    assert json.loads(plan.after)["runtimes"] == {
        name: {"path": f"{tmp_path}/state/front/{name}"} for name in ("crishim-runc", "crishim-crun")
    }
    assert set(plan.left) == {"io.containerd.runc.v2", "kata", "gone"}
    assert "a shim of its own" in plan.left["kata"]
    assert plan.diff().startswith(f"--- {plan.file}")


def test_only_those_that_are_named(process: EngineProcess, places: Places) -> None:
    plan = make_plan(facts(crun=("crun",)), process, places, ["crun"])
    assert [twin.runtime for twin in plan.fresh] == ["crun"]
    with pytest.raises(FrontProblem, match=r"no runtime runk; it has .*crun"):
        make_plan(facts(crun=("crun",)), process, places, ["runk"])
    with pytest.raises(FrontProblem, match=r"no runtime that a front could stand before \(kata"):
        make_plan(facts(), process, places, ["kata"])


def test_what_is_there_is_kept(tmp_path: Path, process: EngineProcess, places: Places) -> None:
    first = make_plan(facts(), process, places)
    (tmp_path / "daemon.json").write_text(first.after)
    again = make_plan(facts(), process, places)
    assert (again.fresh, again.after) == ((), first.after)
    assert [twin.name for twin in again.known] == ["crishim-runc"]
    with pytest.raises(FrontProblem, match="crishim-runc that is another's"):
        make_plan(facts(), process, replace(places, state_dir=tmp_path / "other"))


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"[]", "cannot be changed: it is no JSON object"), (b"\xff", "is not UTF-8"), (None, "cannot read")],
)
def test_a_file_that_is_none_is_told(
    tmp_path: Path, process: EngineProcess, places: Places, content: bytes | None, words: str
) -> None:
    if content is None:
        (tmp_path / "daemon.json").mkdir()
    else:
        (tmp_path / "daemon.json").write_bytes(content)
    with pytest.raises(FrontProblem, match=words):
        make_plan(facts(), process, places)


def test_what_could_not_work_is_refused(process: EngineProcess, places: Places) -> None:
    with pytest.raises(FrontProblem, match="--add-runtime"):
        make_plan(facts(), replace(process, arguments=("--add-runtime=x=/x",)), places)
    with pytest.raises(FrontProblem, match="too long for a unix socket"):
        make_plan(facts(), process, replace(places, desk=Path("/" + "x" * 107)))


def test_a_default_runtime_that_the_file_has_lost_is_refused(
    tmp_path: Path, process: EngineProcess, places: Places
) -> None:
    """An engine of 20.10 ends when it reads such a file."""
    asked = replace(facts(crun=("crun",)), default_runtime="crun")
    with pytest.raises(FrontProblem, match=r"default runtime is crun, which .*daemon.json does not name"):
        make_plan(asked, process, places)
    (tmp_path / "daemon.json").write_text('{"runtimes": {"crun": {"path": "crun"}}}')
    assert {twin.runtime for twin in make_plan(asked, process, places).fresh} == {"runc", "crun"}


@pytest.mark.parametrize("where", ["file", "command line"])
def test_a_front_that_is_the_default_runtime_stays(tmp_path: Path, process: EngineProcess, where: str) -> None:
    """Without it the engine would not start."""
    text = '{"runtimes": {"crishim-runc": {"path": "/x"}}}'
    if where == "file":
        text = text[:-1] + ', "default-runtime": "crishim-runc"}'
    else:
        process = replace(process, arguments=(*process.arguments, "--default-runtime=crishim-runc"))
    (tmp_path / "daemon.json").write_text(text)
    with pytest.raises(FrontProblem, match="crishim-runc is the engine's default-runtime"):
        removal(process, ["crishim-runc"])
    without, _ = removal(process, ["crishim-crun"])
    assert without == text


# --- the engine's process


def test_settings_lie_where_the_engine_was_told(process: EngineProcess, tmp_path: Path) -> None:
    def file(*arguments: str) -> Path:
        return replace(process, arguments=arguments).daemon_json

    assert file() == DAEMON_JSON
    assert file("--debug", "--config-file=/a/b.json") == Path("/a/b.json")
    assert file("--config-file", "b.json", "--debug") == tmp_path / "b.json"
    assert file("--config-file") == DAEMON_JSON
    assert process.find_program("runc") == f"{tmp_path}/bin/runc"
    assert process.find_program("runk") is None
    assert process.find_program("/bin/sh") == "/bin/sh"


def fake_proc(root: Path, pid: int, name: str, sockets: list[int] | None = None) -> None:
    place = root / str(pid)
    (place / "fd").mkdir(parents=True)
    (place / "comm").write_text(f"{name}\n")
    (place / "cmdline").write_bytes(b"/usr/bin/dockerd\0-H\0fd://\0--config-file=/x.json\0")
    (place / "environ").write_bytes(b"A=b\0PATH=/engines\0")
    os.symlink("/", place / "cwd")
    for number, inode in enumerate(sockets or ()):
        os.symlink(f"socket:[{inode}]", place / "fd" / str(number))


def test_a_socket_that_systemd_opened_leads_to_the_engine_not_to_systemd(tmp_path: Path) -> None:
    """SIGHUP to process 1 would be another thing."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/unix").write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 41 /run/other.sock\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 42 /var/run/docker.sock\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 43\n"
    )
    fake_proc(tmp_path, 1, "systemd", [41, 42])
    fake_proc(tmp_path, 8, "dockerd", [41])
    fake_proc(tmp_path, 9, "dockerd", [7, 42])
    found = find_engine(Path("/var/run/docker.sock"), 1, tmp_path)
    assert (found.pid, found.daemon_json, found.search_path) == (9, Path("/x.json"), "/engines")
    assert find_engine(Path("/var/run/docker.sock"), 8, tmp_path).pid == 8, "who opened it, where that is an engine"
    with pytest.raises(FrontProblem, match="no process called dockerd serves /nowhere"):
        find_engine(Path("/nowhere"), 1, tmp_path)


# --- files


def test_a_file_is_replaced_with_mode_and_through_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "etc" / "daemon.json", tmp_path / "link"
    replace_file(file, b"1")
    assert file.stat().st_mode & 0o777 == 0o644
    file.chmod(0o600)
    link.symlink_to(file)
    replace_file(link, b"2")
    assert link.is_symlink()
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"2", 0o600)
    assert os.listdir(file.parent) == ["daemon.json"]
    (tmp_path / "in-the-way").write_text("")
    with pytest.raises(OSError, match="in-the-way"):
        replace_file(tmp_path / "in-the-way" / "x", b"")
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError, match=r"/a'$"):  # the file's name, not the draft's
        replace_file(tmp_path / "a", b"")


def test_each_machine_has_its_program() -> None:
    assert program_bytes("x86_64") == elf_path("amd64").read_bytes()
    assert program_bytes("aarch64") == elf_path("arm64").read_bytes()
    with pytest.raises(FrontProblem, match="no runtime front for riscv64 machines"):
        program_bytes("riscv64")
