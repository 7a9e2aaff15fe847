"""The test world itself: what the other integration tests stand on."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.env import front, images
from tests.env.cni import CniDirs
from tests.env.engine import ALTERNATIVE_RUNTIME, TestEngine
from tests.env.http_api import EngineApiError
from tests.env.registry import Registry, RegistryError


def run(engine: TestEngine, image: str, *command: str, **host: object) -> tuple[int, str]:
    """Run a container to its end; its exit code and what it wrote."""
    spec = {"Image": image, "Cmd": list(command), "Tty": True, "HostConfig": {"NetworkMode": "none", **host}}
    container = engine.api.call("POST", "/containers/create", json_body=spec)["Id"]
    try:
        engine.api.call("POST", f"/containers/{container}/start")
        code = engine.api.call("POST", f"/containers/{container}/wait")["StatusCode"]
        logs = engine.api.call("GET", f"/containers/{container}/logs", {"stdout": "1"})
    finally:
        engine.api.call("DELETE", f"/containers/{container}", {"force": "1"})
    return code, logs.decode().replace("\r\n", "\n")


@pytest.mark.usefixtures("nothing_left")
def test_engine_runs_a_container(engine: TestEngine, busybox_image: str) -> None:
    code, text = run(engine, busybox_image, "sh", "-c", "echo hello; ls /sys/class/net; exit 7", Memory=1 << 26)
    assert (code, text) == (7, "hello\nlo\n")


@pytest.mark.usefixtures("nothing_left")
def test_what_ordinary_pods_ask_of_the_kernel_is_there(engine: TestEngine, busybox_image: str) -> None:
    words = "CAP_SYS_RESOURCE", '"oomScoreAdj":-5'
    for runtime in (engine.api.call("GET", "/info")["DefaultRuntime"], ALTERNATIVE_RUNTIME):
        host = {"OomScoreAdj": -998, "CapAdd": ["ALL"], "Runtime": runtime}
        code, text = run(
            engine, busybox_image, "sh", "-c", 'cat /proc/self/oom_score_adj; echo "$@"', "sh", *words, **host
        )
        assert (code, text) == (0, f"{0 if front.needed() else -998}\n{' '.join(words)}\n")
        assert run(engine, busybox_image, "mount", "-t", "tmpfs", "x", "/tmp", Privileged=True, Runtime=runtime)[0] == 0


def test_image_ids_are_stable_and_settings_arrive(engine: TestEngine, busybox_image: str) -> None:
    image = (
        images.busybox()
        .with_files(images.folder("data", 0o700, 33, 33), images.File("data/x", b"y"), images.symlink("data/z", "x"))
        .with_config(
            User="33",
            Env=[images.PATH, "A=b"],
            Entrypoint=["sh", "-c"],
            Cmd=["cat /data/z"],
            Labels={"l": "m"},
            Volumes={"/data": {}},
            StopSignal="SIGUSR1",
            Healthcheck={"Test": ["NONE"]},
        )
    )
    ref = "crishim.test/variation:1"
    loaded = image.load(engine.api, ref)
    try:
        shown = engine.api.call("GET", f"/images/{ref}/json")
        assert (loaded, shown["RepoTags"]) == (image.id, [ref])
        assert {key: shown["Config"][key] for key in image.config} == dict(image.config)
        assert shown["RootFS"]["Layers"][0] == images.sha256(images.busybox().layers[0])
    finally:
        engine.api.call("DELETE", f"/images/{ref}")


def pull(engine: TestEngine, ref: str, auth: dict[str, str] | None = None) -> None:
    headers = {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(auth or {}).encode()).decode()}
    engine.api.call("POST", "/images/create", {"fromImage": ref}, headers=headers)


@pytest.mark.usefixtures("nothing_left")
def test_push_and_pull(engine: TestEngine, registry: Registry) -> None:
    image = images.make_image({"Cmd": ["/x"]}, [images.File("x", b"1")])
    digest = registry.push(image, "a/b:1")
    for ref in (registry.ref("a/b:1"), registry.ref(f"a/b@{digest}")):
        pull(engine, ref)
        shown = engine.api.call("GET", f"/images/{ref}/json")
        assert shown["Id"] == image.id
        assert registry.ref(f"a/b@{digest}") in shown["RepoDigests"]
        engine.api.call("DELETE", f"/images/{image.id}", {"force": "1"})
    with pytest.raises(EngineApiError):
        pull(engine, registry.ref("a/b:2"))


@pytest.mark.usefixtures("nothing_left")
def test_push_and_pull_with_password(engine: TestEngine, auth_registry: Registry) -> None:
    image = images.make_image({"Cmd": ["/x"]}, [images.File("x", b"2")])
    auth_registry.push(image, "a/b:1")
    ref = auth_registry.ref("a/b:1")
    for wrong in (None, {"username": auth_registry.username, "password": "x"}):
        with pytest.raises(EngineApiError):
            pull(engine, ref, wrong)
    pull(engine, ref, {"username": auth_registry.username, "password": auth_registry.password})
    assert engine.api.call("DELETE", f"/images/{ref}")
    auth_registry.password, kept = "", auth_registry.password
    with pytest.raises(RegistryError, match="401"):
        auth_registry.push(image, "a/b:2")
    auth_registry.password = kept


@pytest.mark.usefixtures("nothing_left")
def test_an_engine_of_ones_own_can_be_killed_and_frozen(new_engine: Callable[..., TestEngine]) -> None:
    engine = new_engine(config={"live-restore": True})
    image = images.busybox().load(engine.api, images.BUSYBOX_REF)
    spec = {"Image": image, "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": "none"}}
    container = engine.api.call("POST", "/containers/create", json_body=spec)["Id"]
    engine.api.call("POST", f"/containers/{container}/start")
    before = engine.api.call("GET", f"/containers/{container}/json")["State"]["Pid"]
    for stop in (engine.kill9, engine.halt):
        stop()
        assert not engine.running
        engine.start()
        assert engine.api.call("GET", f"/containers/{container}/json")["State"]["Pid"] == before
    engine.freeze()
    with pytest.raises(TimeoutError):
        type(engine.api)(engine.socket, timeout=0.2).call("GET", "/_ping")
    engine.thaw()
    assert engine.api.call("GET", "/_ping") == b"OK"


def test_the_machine_is_out_of_reach(world_folder: Path) -> None:
    assert os.listdir("/sys/class/net") == ["lo"]
    assert os.listdir("/run/netns") == []
    assert Path("/proc/1/cmdline").read_bytes().count(b"tests.env.world") == 1
    assert world_folder.is_relative_to("/var/tmp")


def test_cni_folders(cni_dirs: CniDirs) -> None:
    assert os.access(cni_dirs.bin / "bridge", os.X_OK)
    path = cni_dirs.write_bridge("net", "br-test", "198.51.100.0/24")
    assert json.loads(path.read_text())["plugins"][0]["ipam"]["dataDir"] == str(cni_dirs.data)
