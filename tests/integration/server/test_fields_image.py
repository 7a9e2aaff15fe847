"""What depends on an image's content: groups, image volumes, anonymous volumes, health checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env.engine import TestEngine
from tests.env.images import File, busybox, symlink
from tests.integration.server.inside import mounts_of, status_of
from tests.integration.server.pods import (
    Pod,
    container_status,
    inspect,
    linux,
    listed_states,
    make_container,
    pid_of,
)
from tests.integration.server.serving import CALL, CrishimServer

pytestmark = pytest.mark.engine
MEMBERS, FILES = "crishim.test/members:1", "crishim.test/files:1"
PASSWD = b"root:x:0:0::/:/bin/sh\napp:x:1000:1000::/:/bin/sh\n"
GROUP = b"root:x:0:\napp:x:1000:\ninside:x:50000:app\n"


def by_id(number: int) -> pb.Int64Value:
    return pb.Int64Value(value=number)


def test_groups_by_policy(server: CrishimServer, engine: TestEngine) -> None:
    """Merge adds the image's groups, whether a group was asked for or not; Strict never; both in an exec, too."""
    files = [File("etc/passwd.real", PASSWD), symlink("etc/passwd", "passwd.real"), File("etc/group", GROUP)]
    busybox().with_files(*files).load(engine.api, MEMBERS)
    busybox().with_files(*files).with_config(User="app").load(engine.api, f"{MEMBERS}-user")
    cases: dict[str, tuple[dict[str, Any], tuple[int, int, set[int]]]] = {
        "merge": ({"run_as_user": by_id(1000)}, (1000, 1000, {1000, 7, 50000})),
        "merge with a group": ({"run_as_user": by_id(1000), "run_as_group": by_id(5)}, (1000, 5, {5, 7, 50000})),
        "merge by name": ({"run_as_username": "app"}, (1000, 1000, {1000, 7, 50000})),
        "strict": ({"run_as_user": by_id(1000), "supplemental_groups_policy": pb.Strict}, (1000, 1000, {1000, 7})),
        "strict by name": (
            {"run_as_username": "app", "supplemental_groups_policy": pb.Strict},
            (1000, 1000, {1000, 7}),
        ),
        "strict with a group": (
            {"run_as_user": by_id(1000), "run_as_group": by_id(5), "supplemental_groups_policy": pb.Strict},
            (1000, 5, {5, 7}),
        ),
        "strict without a user": ({"supplemental_groups_policy": pb.Strict}, (0, 0, {0, 7})),
        "user of the image": ({}, (1000, 1000, {1000, 7, 50000})),
        "strict user of the image": ({"supplemental_groups_policy": pb.Strict}, (1000, 1000, {1000, 7})),
    }
    assert server.client.Status(pb.StatusRequest(), timeout=CALL).features.supplemental_groups_policy
    pod = Pod(server)
    wrong: dict[str, Any] = {}
    for number, (name, (context, (uid, gid, groups))) in enumerate(cases.items()):
        image = f"{MEMBERS}-user" if "of the image" in name else MEMBERS
        config = make_container(
            f"c{number}", image=pb.ImageSpec(image=image), linux=linux(supplemental_groups=[7], **context)
        )
        container_id = pod.start(config)
        status = status_of(engine.api, container_id)
        found = {int(group) for group in status["Groups"].split()} | {gid}
        told = container_status(server, container_id).user.linux
        shown = (told.uid, told.gid, set(told.supplemental_groups) | {gid})
        request = pb.ExecSyncRequest(container_id=container_id, cmd=["id", "-G"], timeout=30)
        in_exec = {int(word) for word in server.client.ExecSync(request, timeout=CALL).stdout.split()}
        ids = (int(status["Uid"].split()[0]), int(status["Gid"].split()[0]))
        if not (ids == (uid, gid) and found == in_exec == groups and shown == (uid, gid, groups)):
            wrong[name] = (ids, found, in_exec, shown)
    assert wrong == {}


def test_image_volumes(server: CrishimServer, engine: TestEngine) -> None:
    """An image's files or a folder of them, read-only, with the id in status."""
    volume = busybox().with_files(File("data/deep/file", b"content\n"))
    image_id = volume.load(engine.api, FILES)

    def mount(path: str, **changes: Any) -> pb.Mount:
        image = pb.ImageSpec(image=FILES)
        return pb.Mount(container_path=path, readonly=True, image=image, **changes)

    pod = Pod(server)
    mounts = [mount("/whole"), mount("/part", image_sub_path="data/deep")]
    script = (
        "cat /whole/data/deep/file /part/file; /whole/bin/busybox echo runs;"
        " for d in whole part; do touch /$d/x 2>&1 | grep -c Read-only; done"
    )
    assert pod.say(script, mounts=mounts) == "content\ncontent\nruns\n1\n1\n"
    container_id = pod.start(make_container(mounts=mounts))
    found = mounts_of(pid_of(engine.api, container_id))
    assert "ro" in found["/whole"].options & found["/part"].options
    assert {told.image.image_ref for told in container_status(server, container_id).mounts} == {image_id}
    in_use = pb.RemoveImageRequest(image=pb.ImageSpec(image=FILES))
    with pytest.raises(grpc.RpcError, match="is used by 1 container"):
        server.client.RemoveImage(in_use, timeout=CALL)
    before = listed_states(server)
    for bad in (
        [mount("/x", image_sub_path="no/such")],
        [mount("/x", image_sub_path="../etc")],
        [pb.Mount(container_path="/x", image=pb.ImageSpec(image=FILES))],
        [mount("/x", host_path="/tmp")],
        [pb.Mount(container_path="/x", readonly=True, image=pb.ImageSpec(image="crishim.test/none:1"))],
    ):
        with pytest.raises(grpc.RpcError):
            pod.create(make_container("bad", mounts=bad))
    assert listed_states(server) == before
    pod.remove()
    server.client.RemoveImage(in_use, timeout=CALL)


def test_volumes_and_health_checks_of_an_image(server: CrishimServer, engine: TestEngine) -> None:
    """Anonymous volumes are removed with the container; a health check never runs."""
    image = busybox().with_config(
        Volumes={"/data": {}, "/other": {}},
        Healthcheck={"Test": ["CMD", "touch", "/checked"], "Interval": 10**9},
    )
    image.load(engine.api, "crishim.test/volumes:1")
    before = engine.api.call("GET", "/volumes")["Volumes"] or []
    pod = Pod(server)
    container_id = pod.start(make_container(image=pb.ImageSpec(image="crishim.test/volumes:1")))
    pid = pid_of(engine.api, container_id)
    assert {"/data", "/other"} <= set(mounts_of(pid))
    assert len(engine.api.call("GET", "/volumes")["Volumes"]) == len(before) + 2
    assert "Health" not in inspect(engine.api, container_id)["State"]
    assert not Path(f"/proc/{pid}/root/checked").exists()
    server.client.RemoveContainer(pb.RemoveContainerRequest(container_id=container_id), timeout=CALL)
    assert (engine.api.call("GET", "/volumes")["Volumes"] or []) == before
