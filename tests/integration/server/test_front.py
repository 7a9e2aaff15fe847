"""The OCI front on a real engine: installed, proven, asked, refused, killed, and taken away again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from crishim.engine.docker import DockerEngine
from crishim.front.install import commands
from crishim.front.install.plan import Places
from crishim.images.embedded import make_archive
from crishim.runtime.labels import ANCHORED
from tests.env import processes
from tests.env.engine import TestEngine
from tests.env.http_api import EngineApi, EngineApiError
from tests.integration.server.serving import CrishimServer
from tests.integration.server.waiting import until

IMAGE = make_archive(os.uname().machine)


class Command:
    """The three commands on one engine for one server, in this process."""

    def __init__(self, engine: TestEngine, server: CrishimServer, capsys: pytest.CaptureFixture[str]) -> None:
        self.engine, self.server, self._capsys = engine, server, capsys

    def __call__(self, verb: Callable[..., Any], *, status: int = 0, **options: Any) -> str:
        """What it says."""
        context = commands.Context(
            engine=DockerEngine(self.engine.url),
            engine_socket=self.engine.socket,
            places=Places(self.server.state, self.server.desk),
            anchored=ANCHORED,
            **({"yes": True} | options),
        )
        self._capsys.readouterr()
        got = commands.run(verb, context)
        said = self._capsys.readouterr()
        assert got == status, said
        return said.out + said.err


def runtimes(api: EngineApi) -> set[str]:
    return set(api.call("GET", "/info")["Runtimes"])


def own(names: set[str]) -> set[str]:
    """Without the engine's names for its shims, of which one of 20.10 forgets some at any reload."""
    return {name for name in names if not name.startswith("io.")}


def create(api: EngineApi, runtime: str, labels: Mapping[str, str] | None = None, **host: Any) -> str:
    """A container that is nobody's, but for the labels."""
    if not any(IMAGE.tag in (image["RepoTags"] or ()) for image in api.call("GET", "/images/json")):
        api.call("POST", "/images/load", body=IMAGE.tar)
    body = {
        "Image": IMAGE.tag,
        "Labels": labels or {},
        "HostConfig": {"Runtime": runtime, "NetworkMode": "none", **host},
    }
    return str(api.call("POST", "/containers/create", json_body=body)["Id"])


def remove(api: EngineApi, container_id: str) -> None:
    api.call("DELETE", f"/containers/{container_id}", {"force": "1"})


def refusal(api: EngineApi, container_id: str) -> str:
    """What the engine says when it shall start it; it must not run."""
    with pytest.raises(EngineApiError) as refused:
        api.call("POST", f"/containers/{container_id}/start")
    state = api.call("GET", f"/containers/{container_id}/json")["State"]
    assert (state["Running"], state["Pid"]) == (False, 0)
    return str(refused.value)


@pytest.fixture
def plain(new_engine: Callable[..., TestEngine]) -> TestEngine:
    """An engine that has no twins yet."""
    return new_engine(twins=False)


@pytest.mark.usefixtures("nothing_left")
def test_from_installed_to_taken_away(
    plain: TestEngine, new_server: Callable[..., CrishimServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = new_server(plain.url)
    command = Command(plain, server, capsys)
    file = plain.folder / "daemon.json"
    before, known = file.read_bytes(), runtimes(plain.api)

    said = command(commands.install_runtime, yes=False, status=1)
    assert '+  "crishim-alt": {"path": ' in said, "it shows what it would change"
    assert said.endswith("nothing was changed: say --yes where nobody can be asked\n")
    assert (file.read_bytes(), runtimes(plain.api)) == (before, known)
    assert not server.state.exists()
    line = [sys.executable, "-m", "crishim", "check", f"--engine={plain.url}", f"--state-dir={server.state}"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRISHIM_")}
    done = subprocess.run(line, capture_output=True, text=True, env=environ, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.endswith("has no front\nthe engine knows no front: crishim install-runtime adds it\n")

    server.start()  # what runs learns of the twins when the engine reloads
    said = command(commands.install_runtime, only=["alt"])
    assert "proven: crishim-alt" in said
    assert own(runtimes(plain.api)) == own(known) | {"crishim-alt"}
    assert plain.api.call("GET", "/containers/json", {"all": "1"}) == [], "what proved it is gone"
    until(lambda: "the front stands before the runtimes alt\n" in server.log.read_text(), "the server uses them")
    installed = file.read_bytes()
    assert "was there already: crishim-alt" in command(commands.install_runtime, only=["alt"])
    assert file.read_bytes() == installed
    assert command(commands.check).count("refuses a container that is not its own") == 1

    # Nobody's container is refused in words, with and without a server.
    stranger = create(plain.api, "crishim-alt")
    assert "crishim front: crishim knows no container" in refusal(plain.api, stranger)
    server.kill9()
    assert "crishim front: crishim is not there to be asked" in refusal(plain.api, stranger)
    assert "does not reach the server" in command(commands.check, status=1)
    said = command(commands.uninstall_runtime)
    assert "1 containers that do not run were made with the front" in said
    assert file.read_bytes() == before
    assert not {name for name in runtimes(plain.api) if name.startswith("crishim-")}
    assert not (server.state / "front").exists()
    assert "nothing to take away" in command(commands.uninstall_runtime)
    remove(plain.api, stranger)


@pytest.mark.usefixtures("nothing_left")
def test_what_does_not_work_is_undone(
    new_engine: Callable[..., TestEngine],
    new_server: Callable[..., CrishimServer],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """A runtime that starts nothing, one that is not there, and one with arguments, which its front passes on."""
    broken, counted = tmp_path / "broken", tmp_path / "calls"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    engine = new_engine(twins=False)
    given = engine._daemon_json()["runtimes"]
    wordy = tmp_path / "wordy"
    wordy.write_text(f'#!/bin/sh\necho "$1 $2" >> {counted}\nshift 2\nexec {given["alt"]["path"]} "$@"\n')
    wordy.chmod(0o755)
    engine._config["runtimes"] = given | {
        "broken": {"path": str(broken)},
        "gone": {"path": "/no/runtime"},
        "wordy": {"path": str(wordy), "runtimeArgs": ["--some", "words"]},
    }
    engine.restart()
    command = Command(engine, new_server(engine.url), capsys)
    file = engine.folder / "daemon.json"
    before, known = file.read_bytes(), runtimes(engine.api)

    said = command(commands.install_runtime, status=1)
    assert "left alone: io.containerd.runc.v2" in said
    assert "left alone: gone its program /no/runtime is not there" in said
    assert "crishim: crishim-broken cannot start a container" in said
    assert file.read_bytes() == before
    assert own(runtimes(engine.api)) == own(known)
    assert not any((command.server.state / "front").iterdir())
    assert engine.api.call("GET", "/containers/json", {"all": "1"}) == []

    assert "has no runtime rncu; it has alt, broken," in command(commands.install_runtime, only=["rncu"], status=1)
    counted.unlink(missing_ok=True)
    assert "installed: crishim-wordy" in command(commands.install_runtime, only=["wordy"])
    assert set(counted.read_text().splitlines()) == {"--some words"}
    file.write_text(file.read_text().replace(str(command.server.state), "/elsewhere"))
    assert "is another's" in command(commands.install_runtime, status=1)
    file.write_text("{")
    assert "cannot be changed: it is no JSON" in command(commands.install_runtime, status=1)


@pytest.mark.usefixtures("nothing_left")
def test_twins_are_in_use_while_a_container_runs(
    plain: TestEngine, new_server: Callable[..., CrishimServer], capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(plain, new_server(plain.url), capsys)
    command(commands.install_runtime, only=["alt"])
    container = create(plain.api, "crishim-alt")
    conf = command.server.state / "front" / "crishim-alt.conf"
    told = conf.read_text()
    with Answering(command.server.desk):
        plain.api.call("POST", f"/containers/{container}/start")
    said = command(commands.uninstall_runtime, status=1)
    assert f"1 containers run by the front ({container[:12]}): drain the node first" in said
    assert conf.read_text() == told
    remove(plain.api, container)
    pod = create(plain.api, "alt", labels=ANCHORED)
    said = command(commands.uninstall_runtime, status=1)
    assert "1 pods have no process of their own, and need the front: remove them first" in said
    assert conf.read_text() == told
    remove(plain.api, pod)
    command(commands.uninstall_runtime)


class Answering:
    """A desk in a thread that changes nothing, or does not answer (`silent`)."""

    def __init__(self, path: Path, *, silent: bool = False) -> None:
        self.path, self.silent = path, silent
        self.asked = threading.Event()
        self._ended = threading.Event()

    def __enter__(self) -> Answering:
        self._thread = threading.Thread(target=self._run)
        self._ready = threading.Event()
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        import asyncio

        from crishim.front.desk import Desk
        from crishim.front.wire import Answer, Question

        async def answer(question: Question) -> Answer:
            self.asked.set()
            if self.silent:
                await asyncio.to_thread(self._ended.wait)
            return Answer(question.config)

        async def work() -> None:
            desk = Desk(self.path, answer)
            await desk.start()
            self._ready.set()
            await asyncio.to_thread(self._ended.wait)
            await desk.stop()

        asyncio.run(work())


@pytest.fixture
def stranger(engine: TestEngine, alone: None) -> Iterator[str]:
    """A container of the shared engine with a fronted runtime."""
    container = create(engine.api, "crishim-alt")
    yield container
    remove(engine.api, container)
    engine.front_asks(None)


def start_in_background(api: EngineApi, container: str) -> tuple[threading.Thread, list[str]]:
    """Its thread, and what the engine says in the end."""
    said: list[str] = []

    def work() -> None:
        said.append(refusal(api, container))

    thread = threading.Thread(target=work)
    thread.start()
    return thread, said


def waiting_fronts(engine: TestEngine) -> list[int]:
    program = str(engine.folder / "front" / "crishim-alt")
    return [pid for pid in processes.pids() if processes.command_line(pid).startswith(program)]


@pytest.mark.usefixtures("nothing_left")
def test_killed_while_it_waits_the_front_starts_nothing(engine: TestEngine, stranger: str, tmp_path: Path) -> None:
    with Answering(engine.folder / "front" / "desk.sock", silent=True) as desk:
        engine.front_asks(desk.path)
        thread, said = start_in_background(engine.api, stranger)
        assert desk.asked.wait(30)
        (front,) = waiting_fronts(engine)
        os.kill(front, signal.SIGKILL)
        thread.join(30)
    assert len(said) == 1, "the engine tells of a failure, without words"
    until(lambda: not waiting_fronts(engine), "it is gone")


@pytest.mark.usefixtures("nothing_left")
def test_killed_while_it_is_asked_the_server_starts_nothing(
    engine: TestEngine, stranger: str, new_server: Callable[..., CrishimServer]
) -> None:
    server = new_server(fronted=True)
    server.start()
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)
    thread, said = start_in_background(engine.api, stranger)
    until(lambda: waiting_fronts(engine), "a front waits")
    server.kill9()
    thread.join(30)
    (words,) = said
    assert "crishim front: crishim" in words
