"""The image store: references in all their forms, removal, archives."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

import pytest

from crishim.engine.simulated.images import ImageStore, default_images, familiar, made_up
from crishim.engine.values import EngineImage
from crishim.errors import EngineConflict, EngineError, EngineNotFound

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("reference", "shown"),
    [
        ("busybox", "busybox:latest"),
        ("docker.io/library/busybox", "busybox:latest"),
        ("docker.io/team/app:1", "team/app:1"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        (f"localhost:5000/app@{DIGEST}", f"localhost:5000/app@{DIGEST}"),
        (f"busybox:1@{DIGEST}", f"busybox@{DIGEST}"),
    ],
)
def test_names_are_shown_as_docker_does(reference: str, shown: str) -> None:
    assert familiar(reference) == shown


def test_the_same_reference_is_always_the_same_image() -> None:
    image = made_up("app:1")
    assert image == made_up("docker.io/library/app:1")
    assert image.size > 0
    by_digest = made_up(image.digests[0])
    assert by_digest.id == image.id
    assert by_digest.tags == ()
    assert made_up("app:2").id != image.id


def test_found_by_every_name() -> None:
    store = ImageStore(default_images())
    image = store.find("busybox")
    for reference in (
        "busybox:latest",
        "docker.io/library/busybox:latest",
        image.id,
        image.id.removeprefix("sha256:"),
        image.id[:19],
        image.id[7:19],
        *image.digests,
    ):
        assert store.find(reference) == image, reference
    with pytest.raises(EngineNotFound):
        store.find("busybox:other")
    with pytest.raises(EngineNotFound):
        store.find(DIGEST)


def test_an_ambiguous_prefix_is_refused() -> None:
    ids = ["sha256:" + "ab" * 32, "sha256:" + "ab" + "cd" * 31]
    store = ImageStore(EngineImage(id=i, size=1) for i in ids)
    with pytest.raises(EngineError, match="ambiguous"):
        store.find("ab")
    assert store.find("abab").id == ids[0]


def test_a_name_moves_to_the_image_that_takes_it() -> None:
    old = EngineImage(id="sha256:" + "1" * 64, tags=("app:1", "app:old"), size=1)
    new = EngineImage(id="sha256:" + "2" * 64, tags=("app:1",), size=1)
    store = ImageStore([old])
    store.add(new)
    assert store.find("app:1").id == new.id
    assert store.find(old.id).tags == ("app:old",)
    store.add(EngineImage(id=old.id, tags=("app:2",), size=1))
    assert store.find(old.id).tags == ("app:old", "app:2")


def test_removing_a_name_leaves_the_others() -> None:
    image = EngineImage(id="sha256:" + "1" * 64, tags=("app:1", "other:1"), digests=(f"app@{DIGEST}",), size=1)
    store = ImageStore([image])
    before, gone, deleted = store.remove("app:1", users=["c"])
    assert (before, deleted) == (image, False)
    assert gone == ["app:1", f"app@{DIGEST}"]
    assert store.find("other:1").tags == ("other:1",)
    with pytest.raises(EngineConflict, match="c1, c2"):
        store.remove("other:1", users=["c1", "c2"])
    assert store.find("other:1").tags == ("other:1",)
    assert store.remove("other:1", users=[])[2]
    assert len(store) == 0


def test_removing_by_id_takes_all_names() -> None:
    image = EngineImage(id="sha256:" + "1" * 64, tags=("app:1", "other:1"), digests=(f"app@{DIGEST}",), size=1)
    store = ImageStore([image])
    with pytest.raises(EngineConflict):
        store.remove(image.id, users=["c"])
    assert store.find("app:1") == image
    _, gone, deleted = store.remove(image.id, users=[])
    assert deleted
    assert set(gone) == {"app:1", "other:1", f"app@{DIGEST}"}
    for reference in (*gone, image.id):
        with pytest.raises(EngineNotFound):
            store.find(reference)


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_an_archive_is_read() -> None:
    config = json.dumps(
        {"config": {"Entrypoint": ["/pause"], "User": "65535", "Labels": {"a": "b"}, "Volumes": {"/v": {}}}}
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": ["pause:embedded"], "Layers": ["l.tar"]}]
    store = ImageStore([])
    (image,) = store.load(archive({"config.json": config, "manifest.json": json.dumps(manifest).encode()}))
    assert image.id == "sha256:" + hashlib.sha256(config).hexdigest()
    assert store.find("pause:embedded") == image
    assert (image.entrypoint, image.user, image.labels, image.volumes) == (("/pause",), "65535", {"a": "b"}, ("/v",))
    assert image.size > 0


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"no archive",
        archive({"other": b""}),
        archive({"manifest.json": b"{"}),
        archive({"manifest.json": b'[{"Config": "gone.json"}]'}),
        archive({"manifest.json": b'[{"Config": "c"}]', "c": b"[]"}),
    ],
)
def test_what_is_no_archive_is_refused(blob: bytes) -> None:
    store = ImageStore([])
    with pytest.raises(EngineError, match="invalid archive"):
        store.load(blob)
    assert len(store) == 0
