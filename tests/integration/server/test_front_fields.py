"""Fields that the runtime's front carries, read back from the kernel, on an engine whose API cannot say them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.engine.twins import twin_name
from tests.env import images
from tests.env import linux as kernel
from tests.integration.server.fronted import FrontedEngine
from tests.integration.server.inside import held, mounts_of, status_of
from tests.integration.server.pods import (
    Pod,
    container_status,
    inspect,
    linux,
    make_container,
    pid_of,
    pod_linux,
    restart_behind,
)
from tests.integration.server.pods import make_pod as config_of
from tests.integration.server.residue import assert_nothing_left
from tests.integration.server.serving import CALL, CrishimServer, code, text

pytestmark = pytest.mark.engine
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


@pytest.fixture(scope="module")
def fronted(world_folder: Path) -> Iterator[tuple[CrishimServer, FrontedEngine]]:
    """An engine whose default runtime has a front, and the server that it asks."""
    folder = Path(tempfile.mkdtemp(prefix="fields-", dir=world_folder / "tmp"))
    server = CrishimServer("", folder / "s", flags=["--log-level=debug", "--carrier=pause"])
    binaries = os.environ.get("CRISHIM_TEST_ENGINE")
    with FrontedEngine(folder / "e", Path(binaries) if binaries else None) as engine:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        engine.ask(server.folder / "run")
        server.engine_url = engine.url
        server.start()
        yield server, engine
        server.remove_all()
        assert_nothing_left(server, engine.api)
        assert server.stop() == 0, server.last_words()
    server.remove_folder()


def runtime_of(engine: FrontedEngine) -> str:
    """The default one, which has the front."""
    return str(engine.api.call("GET", "/info")["DefaultRuntime"])


def ambient(*names: str, **context: object) -> pb.LinuxContainerConfig:
    drop = context.pop("drop", ())
    capabilities = pb.Capability(add_ambient_capabilities=names, drop_capabilities=drop)  # type: ignore[arg-type]
    return linux(capabilities=capabilities, **context)


def test_ambient_capabilities(fronted: tuple[CrishimServer, FrontedEngine]) -> None:
    """In all five sets of a user's process, in its execs, too, and also when the engine starts it again."""
    server, engine = fronted
    pod = Pod(server)
    asked = ambient("KILL", "CHOWN", drop=["CHOWN"], run_as_user=pb.Int64Value(value=1000))
    container_id = pod.start(make_container(linux=asked))

    def check() -> None:
        status = status_of(engine.api, container_id)
        assert status["Uid"].split()[0] == "1000"
        assert {name for name in SETS if "KILL" in held(status[name])} == set(SETS)
        assert held(status["CapAmb"]) == {"KILL"}
        assert "CHOWN" not in held(status["CapBnd"]), "dropping wins"
        request = pb.ExecSyncRequest(container_id=container_id, cmd=["grep", "Cap", "/proc/self/status"], timeout=30)
        said = server.client.ExecSync(request, timeout=CALL).stdout.decode().split()
        in_exec = dict(zip((name.rstrip(":") for name in said[::2]), said[1::2], strict=True))
        assert {name: held(mask) for name, mask in in_exec.items()} == {name: held(status[name]) for name in SETS}

    check()
    server.restart()
    check()
    restart_behind(server, engine.api, container_id)
    check()


def test_all_capabilities_ambient(fronted: tuple[CrishimServer, FrontedEngine]) -> None:
    server, engine = fronted
    user = pb.Int64Value(value=1000)
    privileged = Pod(server, config_of(server, linux=pod_linux(privileged=True)))
    for pod, config in (
        (Pod(server), ambient("ALL", drop=["NET_RAW"], run_as_user=user)),
        (privileged, ambient("ALL", run_as_user=user, privileged=True)),
    ):
        status = status_of(engine.api, pod.start(make_container(linux=config)))
        assert len({status[name] for name in SETS}) == 1, status
        assert "SYS_ADMIN" in held(status["CapAmb"])
        assert ("NET_RAW" in held(status["CapAmb"])) is (pod is privileged)


def test_who_asks_for_nothing_does_not_pass_the_front(fronted: tuple[CrishimServer, FrontedEngine]) -> None:
    server, engine = fronted
    pod = Pod(server)
    plain, carried = pod.start(), pod.start(make_container("carried", linux=ambient("KILL")))
    runtimes = [inspect(engine.api, one)["HostConfig"]["Runtime"] for one in (pod.id, plain, carried)]
    runtime = runtime_of(engine)
    assert runtimes == [runtime, runtime, twin_name(runtime)]
    assert held(status_of(engine.api, plain)["CapAmb"]) == set()


def test_mount_options(fronted: tuple[CrishimServer, FrontedEngine], tmp_path: Path) -> None:
    """They are in force for the mount, told as asked, and others are refused by name."""
    server, engine = fronted
    script = tmp_path / "run"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    options = [[], ["noexec"], ["nodev"], ["nosuid"], ["nosuid", "noexec", "nodev"]]
    mounts = [
        pb.Mount(
            container_path=f"/m/{number}/", host_path=str(tmp_path), mount_options=asked, readonly=bool(number % 2)
        )
        for number, asked in enumerate(options)
    ]
    pod = Pod(server)
    container_id = pod.start(make_container(mounts=mounts))
    found = mounts_of(pid_of(engine.api, container_id))
    plain = found["/m/0"].options
    for number, asked in enumerate(options):
        wanted = plain - {"rw"} | set(asked) | ({"ro"} if number % 2 else {"rw"})
        assert found[f"/m/{number}"].options == wanted
    assert [list(told.mount_options) for told in container_status(server, container_id).mounts] == options
    said = pod.say("for n in 0 1 2 3 4; do /m/$n/run || echo $?; done 2>/dev/null", mounts=mounts)
    assert said.split() == ["ran", "126", "ran", "ran", "126"]
    with pytest.raises(grpc.RpcError) as refused:
        pod.create(make_container("bad", mounts=[pb.Mount(container_path="/x", host_path="/", mount_options=["suid"])]))
    assert code(refused.value) is grpc.StatusCode.INVALID_ARGUMENT
    assert "config.mounts[0].mount_options[0]" in text(refused.value)


def test_recursive_read_only(fronted: tuple[CrishimServer, FrontedEngine], tmp_path: Path) -> None:
    """What is mounted below is read-only only where that was asked."""
    server, engine = fronted
    (below := tmp_path / "deep" / "below").mkdir(parents=True)
    kernel.mount("tmpfs", below, "tmpfs")
    try:
        mounts = [
            pb.Mount(container_path="/all", host_path=str(tmp_path), readonly=True, recursive_read_only=True),
            pb.Mount(container_path="/top", host_path=str(tmp_path), readonly=True),
        ]
        pod = Pod(server)
        container_id = pod.start(make_container(mounts=mounts))
        found = mounts_of(pid_of(engine.api, container_id))
        states = {
            place: "ro" in found[place].options for place in ("/all", "/all/deep/below", "/top", "/top/deep/below")
        }
        assert states == {"/all": True, "/all/deep/below": True, "/top": True, "/top/deep/below": False}
        said = pod.say(
            "for d in all top; do touch /$d/deep/below/x 2>&1 | grep -c Read-only; done; true", mounts=mounts
        )
        assert said.split() == ["1", "0"]
        told = [mount.recursive_read_only for mount in container_status(server, container_id).mounts]
        assert told == [True, False]
        pod.remove()
    finally:
        kernel.umount(below)


def test_the_node_tells_what_its_handlers_can(fronted: tuple[CrishimServer, FrontedEngine]) -> None:
    server, engine = fronted
    runtime = runtime_of(engine)
    answer = server.client.Status(pb.StatusRequest(), timeout=CALL)
    able = {handler.name: handler.features.recursive_read_only_mounts for handler in answer.runtime_handlers}
    assert able[""]
    assert able[runtime]
    assert twin_name(runtime) not in able
    assert answer.features.mount_options
    assert answer.features.supplemental_groups_policy
    with pytest.raises(grpc.RpcError, match="front of the runtime"):
        Pod(server, handler=twin_name(runtime))
