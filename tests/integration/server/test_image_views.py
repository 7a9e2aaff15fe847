"""Image volumes by views of our own, on engines without mounts of images: what is there, and that all of it goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.engine.features import FIRST_API, Feature
from tests.env import linux as kernel
from tests.env.engine import TestEngine
from tests.env.http_api import EngineApi, EngineApiError
from tests.env.images import File, busybox, symlink
from tests.integration.server.inside import mounts_of
from tests.integration.server.pods import (
    Pod,
    linux,
    listed_states,
    make_container,
    make_pod,
    pid_of,
    pod_linux,
)
from tests.integration.server.residue import assert_nothing_left, engine_containers
from tests.integration.server.serving import CALL, CrishimServer, text

pytestmark = pytest.mark.engine
VOLUME = "crishim.test/volume:1"


def two_layers(api: EngineApi) -> str:
    """Load an image whose upper layer takes a file of the lower away; its id."""
    files = [File("data/deep/file", b"content\n"), File("data/gone", b"x"), symlink("link", "/data/deep")]
    lower = busybox().with_files(*files, symlink("out", "../../../../proc/self"))
    lower.with_config(Volumes={"/anonymous": {}}).load(api, "crishim.test/lower:1")
    body = {"Image": "crishim.test/lower:1", "Cmd": ["sh", "-c", "rm /data/gone; echo upper >/data/upper"]}
    made = api.call("POST", "/containers/create", json_body=body)["Id"]
    api.call("POST", f"/containers/{made}/start")
    api.call("POST", f"/containers/{made}/wait")
    repository, _, tag = VOLUME.rpartition(":")
    image: str = api.call("POST", "/commit", {"container": made, "repo": repository, "tag": tag})["Id"]
    api.call("DELETE", f"/containers/{made}", {"v": "1"})
    return image


def of_image(path: str, **changes: Any) -> pb.Mount:
    return pb.Mount(container_path=path, readonly=True, image=pb.ImageSpec(image=VOLUME), **changes)


def views(server: CrishimServer) -> list[Path]:
    """Where views are mounted."""
    found = {Path(point) for point, *_ in kernel.mounts()}
    return sorted(point for point in found if point.is_relative_to(server.folder / "run" / "images"))


@pytest.fixture
def volume(engine: TestEngine) -> str:
    """The id of the image."""
    major, minor = str(engine.api.call("GET", "/version")["ApiVersion"]).split(".")
    if (int(major), int(minor)) >= FIRST_API[Feature.IMAGE_MOUNTS]:
        pytest.skip("the engine mounts images itself: test_fields_image judges that")
    return two_layers(engine.api)


def test_content_of_a_view(server: CrishimServer, engine: TestEngine, volume: str) -> None:
    """The image as its containers see it, whole or from a folder on, through links but never out of it, and read-only
    for root, too."""
    pod = Pod(server, make_pod(server, linux=pod_linux(privileged=True)))
    mounts = [
        of_image("/whole"),
        of_image("/part", image_sub_path="data/deep"),
        of_image("/linked", image_sub_path="link"),
        of_image("/file", image_sub_path="data/deep/file"),
    ]
    script = (
        "cat /whole/data/deep/file /part/file /linked/file /file /whole/data/upper;"
        " test -e /whole/data/gone && echo no;"
        " for d in whole part linked; do mount -o remount,rw /$d 2>/dev/null; mount -o remount,rw,bind /$d 2>/dev/null;"
        " touch /$d/x 2>&1 | grep -c Read-only; done; (echo 1 >/file) 2>&1 | grep -c Read-only"
    )
    said = pod.say(script, mounts=mounts, linux=linux(privileged=True))
    assert said == "content\n" * 4 + "upper\n" + "1\n" * 4
    plain = pod.start(make_container("plain", mounts=mounts[:2]))
    found = mounts_of(pid_of(engine.api, plain))
    for point in ("/whole", "/part"):
        assert (found[point].kind, "ro" in found[point].options) == ("overlay", True)
    for bad in ("no/such", "out", "link/none", "data/gone"):
        with pytest.raises(grpc.RpcError) as refused:
            pod.create(make_container("bad", mounts=[of_image("/x", image_sub_path=bad)]))
        assert text(refused.value).startswith(f"ImageVolumeMountFailed: /x: the image has no {bad!r}")
    assert list(listed_states(server)) == [pod.id, plain], "neither the refused nor the view's holder"


def test_who_needs_a_view(server: CrishimServer, engine: TestEngine, volume: str) -> None:
    """One for all containers; the image stays while it is there; the last one takes all of it along."""
    pod = Pod(server)
    before, volumes = engine_containers(engine.api), engine.api.call("GET", "/volumes")["Volumes"]
    first, second = [pod.create(make_container(name, mounts=[of_image("/v")])) for name in ("first", "second")]
    (place,) = views(server)
    assert place.name == volume.removeprefix("sha256:")
    assert len(engine_containers(engine.api)) == len(before) + 3
    assert set(listed_states(server)) == {pod.id, first, second}
    with pytest.raises(EngineApiError, match="409"):
        engine.api.call("DELETE", f"/images/{volume}")
    server.client.RemoveContainer(pb.RemoveContainerRequest(container_id=first), timeout=CALL)
    assert views(server) == [place]
    server.client.StartContainer(pb.StartContainerRequest(container_id=second), timeout=CALL)
    server.client.RemoveContainer(pb.RemoveContainerRequest(container_id=second), timeout=CALL)
    assert (views(server), engine_containers(engine.api)) == ([], before)
    assert engine.api.call("GET", "/volumes")["Volumes"] == volumes, "nor anonymous volumes of the holder's"
    server.client.RemoveImage(pb.RemoveImageRequest(image=pb.ImageSpec(image=volume)), timeout=CALL)


def test_a_view_through_crashes(
    alone: None, new_server: Callable[..., CrishimServer], engine: TestEngine, volume: str
) -> None:
    """Kept for who needs it, made again where it is gone, and taken away at the next start where nobody does."""
    server = new_server(engine.url)
    server.start()
    pod = Pod(server)
    running = pod.start(make_container("running", mounts=[of_image("/v")]))
    created = pod.create(make_container("created", mounts=[of_image("/v", image_sub_path="data")]))
    server.kill9()
    server.start()
    (place,) = views(server)
    kernel.umount(place)
    (holder,) = (name for name in engine_containers(engine.api) if "crishim-view-" in name)
    engine.api.call("DELETE", f"/containers/{holder.strip('/')}")
    server.client.StartContainer(pb.StartContainerRequest(container_id=created), timeout=CALL)
    assert views(server) == [place]
    for container_id in (running, created):
        request = pb.ExecSyncRequest(container_id=container_id, cmd=["find", "/v", "-name", "upper"], timeout=30)
        assert b"upper" in server.client.ExecSync(request, timeout=CALL).stdout, "a container keeps what it has mounted"
    server.kill9()
    for container_id in (running, created):
        engine.api.call("DELETE", f"/containers/{container_id}", {"force": "1", "v": "1"})
    server.start()
    assert views(server) == []
    server.remove_all()
    assert_nothing_left(server, engine.api)
