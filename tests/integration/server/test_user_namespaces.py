"""Pods with a user namespace of their own: who they are inside and outside, and whose their files are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.front.idmap import find_layers
from tests.env import images
from tests.env import linux as kernel
from tests.env.http_api import EngineApi
from tests.integration.server.fronted import FrontedEngine
from tests.integration.server.inside import status_of
from tests.integration.server.pods import (
    Pod,
    container_status,
    inspect,
    linux,
    make_container,
    make_pod,
    pid_of,
    pod_linux,
    restart_behind,
)
from tests.integration.server.residue import assert_nothing_left, assert_store_empty
from tests.integration.server.serving import CALL, CrishimServer, code, text
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine

HOST_ID, LENGTH = 100_000, 65_536
RUN = pb.IDMapping(container_id=0, host_id=HOST_ID, length=LENGTH)
USER = pb.UserNamespace(mode=pb.POD, uids=[RUN], gids=[RUN])
OPTIONS = pb.NamespaceOption(pid=pb.CONTAINER, userns_options=USER)
IN_IT = linux(namespace_options=OPTIONS)
SHIFTED: dict[str, Any] = {"uidMappings": [RUN], "gidMappings": [RUN]}


@pytest.fixture(scope="module")
def fronted(world_folder: Path) -> Iterator[FrontedEngine]:
    binaries = os.environ.get("CRISHIM_TEST_ENGINE")
    with FrontedEngine(world_folder / "tmp" / "fronted-users", Path(binaries) if binaries else None) as engine:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        yield engine


@pytest.fixture
def world(new_server: Callable[..., CrishimServer], fronted: FrontedEngine) -> Iterator[CrishimServer]:
    """A server with the embedded network. After the test all that is listed is removed, and nothing is left."""
    server = new_server(engine_url=fronted.url, embedded=True, flags=["--log-level=debug"])
    fronted.ask(server.folder / "run")
    server.start()
    yield server
    server.remove_all()
    assert_nothing_left(server, fronted.api)
    assert mounts_below(server.folder) == []
    assert server.stop() == 0
    assert_store_empty(server)
    query = {"all": "1", "filters": '{"label": ["io.crishim.anchor"]}'}
    for row in fronted.api.call("GET", "/containers/json", query):
        fronted.api.call("DELETE", f"/containers/{row['Id']}", {"force": "1"})


def mounts_below(folder: Path) -> list[str]:
    return [point for point, *_ in kernel.mounts() if point.startswith(f"{folder}/run/pods/")]


def upper_of(api: EngineApi, container_id: str) -> Path:
    """The folder in which a container's writes lie."""
    if data := inspect(api, container_id).get("GraphDriver", {}).get("Data"):
        return Path(data["UpperDir"])
    # containerd's: the engine mounts it under the container's id
    table = Path("/proc/self/mountinfo").read_text()
    merged = next(
        p for p, kind, *_ in kernel.mounts() if kind == "overlay" and p.endswith(f"/overlayfs/{container_id}")
    )
    return Path(find_layers(merged, table).upper)


def user_pod(server: CrishimServer, **changes: Any) -> Pod:
    context = {"namespace_options": OPTIONS} | changes
    return Pod(server, make_pod(server, linux=pod_linux(**context)))


def exec_in(server: CrishimServer, container_id: str, script: str) -> str:
    request = pb.ExecSyncRequest(container_id=container_id, cmd=["sh", "-c", script], timeout=30)
    answer = server.client.ExecSync(request, timeout=CALL)
    assert answer.exit_code == 0, answer
    return str(answer.stdout.decode())


def test_root_inside_is_nobody_outside(world: CrishimServer, fronted: FrontedEngine, tmp_path: Path) -> None:
    """The root file system and volumes belong to those to whom they belong; what is written keeps its owner on disk."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "file").write_text("of root\n")
    os.chown(volume / "file", 0, 7)
    plain = tmp_path / "plain"
    plain.mkdir()
    mounts = [
        pb.Mount(container_path="/vol", host_path=str(volume), **SHIFTED),
        pb.Mount(container_path="/vol-file", host_path=str(volume / "file"), readonly=True, **SHIFTED),
        pb.Mount(container_path="/plain", host_path=str(plain)),
    ]
    pod = user_pod(world)
    container_id = pod.start(make_container(linux=IN_IT, mounts=mounts))
    status = status_of(fronted.api, container_id)
    assert status["Uid"].split()[0] == str(HOST_ID)
    told = container_status(world, container_id).user.linux
    assert (told.uid, told.gid) == (0, 0)
    script = (
        "cat /proc/self/uid_map /proc/self/gid_map; stat -c %u:%g / /bin /bin/busybox /vol /vol/file /vol-file /plain;"
        " echo x > /made; mkdir /bin/new; echo y >> /etc/passwd; touch /vol/made /dev/shm/made;"
        " chown 5:6 /vol/made; stat -c %u:%g /made /bin/new /etc/passwd /vol/made /dev/shm/made /etc/resolv.conf;"
        " touch /plain/x 2>&1 | grep -c denied; touch /vol-file 2>&1 | grep -c Read-only; hostname;"
        " ip addr show eth0 | grep -c 'inet '"
    )
    said = exec_in(world, container_id, script).split("\n")
    assert [line.split() for line in said[:2]] == [["0", str(HOST_ID), str(LENGTH)]] * 2
    assert said[2:9] == ["0:0", "0:0", "0:0", "0:0", "0:7", "0:7", "65534:65534"]
    assert said[9:15] == ["0:0", "0:0", "0:0", "5:6", "0:0", "0:0"]
    assert said[15:19] == ["1", "1", pod.config.hostname, "1"]
    assert ((volume / "made").stat().st_uid, (volume / "made").stat().st_gid) == (5, 6)
    # The engine sees what was written, with the owners that an image of it would have.
    upper = upper_of(fronted.api, container_id)
    assert [(upper / name).stat().st_uid for name in ("made", "bin/new", "etc/passwd")] == [0, 0, 0]
    # Restarted behind our back, by a later server: the same files, in the same namespace.
    world.restart()
    restart_behind(world, fronted.api, container_id)
    assert exec_in(
        world, container_id, "cat /made; stat -c %u /made /vol/file; readlink /proc/self/ns/user"
    ).split() == [
        "x",
        "0",
        "0",
        os.readlink(f"/proc/{pid_of(fronted.api, container_id)}/ns/user"),
    ]
    assert len([point for point in mounts_below(world.folder) if container_id in point]) == 3
    world.client.RemoveContainer(pb.RemoveContainerRequest(container_id=container_id), timeout=CALL)
    assert [point for point in mounts_below(world.folder) if container_id in point] == []
    # So it does where somebody else removes a container, also while nobody looks.
    for away in (False, True):
        container_id = pod.start(make_container(f"taken-{away}", linux=IN_IT))
        assert [point for point in mounts_below(world.folder) if container_id in point]
        if away:
            world.kill9()
        fronted.api.call("DELETE", f"/containers/{container_id}", {"force": "1"})
        if away:
            world.start()
        until(lambda: not [p for p in mounts_below(world.folder) if container_id in p], "nothing mounted for it")  # noqa: B023
    # Another container of the pod shares what a pod shares.
    assert pod.say("cat /proc/self/uid_map; cat /dev/shm/made && echo shared", linux=IN_IT).split()[1:] == [
        str(HOST_ID),
        str(LENGTH),
        "shared",
    ]


def test_users_and_privileges(world: CrishimServer, fronted: FrontedEngine) -> None:
    """Any user, a read-only root, a privileged container, sysctls of the pod: all inside its user namespace."""
    context = pod_linux(
        namespace_options=OPTIONS, privileged=True, sysctls={"net.ipv4.ip_forward": "1", "kernel.msgmax": "9000"}
    )
    pod = Pod(world, make_pod(world, linux=context))
    user = {"run_as_user": pb.Int64Value(value=1000), "run_as_group": pb.Int64Value(value=1001)}
    container_id = pod.start(
        make_container("user", linux=linux(namespace_options=OPTIONS, supplemental_groups=[7], **user))
    )
    assert status_of(fronted.api, container_id)["Uid"].split()[0] == str(HOST_ID + 1000)
    told = container_status(world, container_id).user.linux
    assert (told.uid, told.gid) == (1000, 1001)
    assert set(told.supplemental_groups) - {1001} == {7}
    assert exec_in(world, container_id, "id -u; id -g").split() == ["1000", "1001"]
    read_only = linux(namespace_options=OPTIONS, readonly_rootfs=True)
    assert "Read-only" in pod.say("touch /x 2>&1; true", linux=read_only)
    privileged = linux(namespace_options=OPTIONS, privileged=True)
    said = pod.say(
        "mkdir /m; mount -t tmpfs none /m 2>&1 && echo mounted;"
        " cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/msgmax;"
        " ip link add d0 type dummy 2>&1; cat /proc/self/uid_map",
        linux=privileged,
    )
    assert said.split()[:3] == ["mounted", "1", "9000"]
    assert said.split()[-3:] == ["0", str(HOST_ID), str(LENGTH)]


def test_what_does_not_go_with_it(world: CrishimServer) -> None:
    """Refused by the field's path, with nothing made; the handlers say that the rest is there."""
    answer = world.client.Status(pb.StatusRequest(), timeout=CALL)
    assert {handler.features.user_namespaces for handler in answer.runtime_handlers if handler.name == ""} == {True}
    other = pb.UserNamespace(mode=pb.POD, uids=[pb.IDMapping(container_id=1, host_id=5, length=5)], gids=[RUN])
    invalid, unsupported = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
    for options, wanted, field in (
        (pb.NamespaceOption(pid=pb.CONTAINER, userns_options=other), invalid, "uids[0].container_id"),
        (pb.NamespaceOption(pid=pb.NODE, userns_options=USER), unsupported, "namespace_options.pid"),
        (pb.NamespaceOption(pid=pb.CONTAINER, network=pb.NODE, userns_options=USER), unsupported, "options.network"),
        (pb.NamespaceOption(pid=pb.CONTAINER, ipc=pb.NODE, userns_options=USER), unsupported, "options.ipc"),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            Pod(world, make_pod(world, linux=pod_linux(namespace_options=options)))
        assert (code(refused.value), field in text(refused.value)) == (wanted, True), text(refused.value)
    pod = user_pod(world)
    for changes, field in (
        (
            {"linux": linux(namespace_options=pb.NamespaceOption(pid=pb.CONTAINER, userns_options=other))},
            "userns_options",
        ),
        ({"mounts": [pb.Mount(container_path="/x", host_path="/", uidMappings=other.uids)]}, "uidMappings"),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            pod.create(make_container(**({"linux": IN_IT} | changes)))
        assert (code(refused.value), field in text(refused.value)) == (invalid, True), text(refused.value)


def test_shared_processes(world: CrishimServer, fronted: FrontedEngine) -> None:
    """A pod with a user namespace and one PID namespace: its process is first in there, and comes again if killed."""
    options = pb.NamespaceOption(pid=pb.POD, userns_options=USER)
    inside = linux(namespace_options=options)
    pod = Pod(world, make_pod(world, linux=pod_linux(namespace_options=options)))
    name = f"k8s_POD_{pod.config.metadata.name}_default_{pod.config.metadata.uid}_0"
    kinds = ("net", "ipc", "uts", "user", "pid")

    def namespaces(container: str) -> list[str]:
        return [os.readlink(f"/proc/{pid_of(fronted.api, container)}/ns/{kind}") for kind in kinds]

    container_id = pod.start(make_container(linux=inside))
    before = namespaces(container_id)
    assert namespaces(name) == before
    assert os.readlink("/proc/self/ns/user") not in before
    script = "cat /proc/1/comm /proc/self/uid_map; ps | grep -c 'sh -c'; stat -c %u:%g / /proc/1; hostname"
    said = exec_in(world, container_id, script).split()
    assert said[:4] == ["pause", "0", str(HOST_ID), str(LENGTH)]
    assert said[-1] == pod.config.hostname
    world.restart()
    assert pod.say("cat /proc/1/comm", linux=inside) == "pause\n"
    ip = pod.status().network.ip
    fronted.api.call("POST", f"/containers/{name}/kill")
    until(lambda: container_status(world, container_id).state == pb.CONTAINER_EXITED, "the end of all processes")
    again = pod.start(make_container(attempt=1, linux=inside))
    assert namespaces(again) == namespaces(name)
    assert namespaces(again)[:-1] == before[:-1]
    assert (pod.status().network.ip, pod.status().state) == (ip, pb.SANDBOX_READY)
    fronted.api.call("DELETE", f"/containers/{name}", {"force": "1"})
    assert pod.say("cat /proc/1/comm", linux=inside) == "pause\n", "another one"
    pod.remove()
    assert mounts_below(world.folder) == []
