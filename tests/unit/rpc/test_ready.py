from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from crishim.checkpoint.record import Phase
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.engine.values import ContainerPhase, EngineImage
from crishim.model import ImageFilter, ImageSpec
from crishim.rpc import messages
from crishim.rpc.ready import ReadyContainers, ReadyImages, ReadySandboxes
from crishim.runtime.index import Index
from crishim.runtime.objects import Container, Sandbox

MakeSandbox = Callable[..., Sandbox]
MakeContainer = Callable[..., Container]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the containers for which an item of a list was made, in order."""
    ids: list[str] = []
    make = messages.make_container

    def counted(container: Container) -> pb.Container:
        ids.append(container.id)
        return make(container)

    monkeypatch.setattr(messages, "make_container", counted)
    return ids


@pytest.fixture
def index(make_sandbox: MakeSandbox, make_container: MakeContainer) -> Index:
    index = Index()
    index.put_sandbox(make_sandbox("aa"))
    for name in ("c1", "c2", "c3"):
        index.put_container(make_container(name, sandbox_id="aa"))
    return index


def listed(wire: bytes) -> list[str]:
    return [c.id for c in pb.ListContainersResponse.FromString(wire).containers]


def test_a_list_of_ready_bytes_is_the_list(index: Index) -> None:
    ready = ReadyContainers(index)
    expected = pb.ListContainersResponse(containers=[messages.make_container(c) for c in index.containers()])
    assert pb.ListContainersResponse.FromString(ready.all_items(index.containers())) == expected
    sandboxes = pb.ListPodSandboxResponse.FromString(ReadySandboxes(index).all_items(index.sandboxes()))
    assert [s.id for s in sandboxes.items] == ["aa"]


def test_a_message_is_made_once_per_revision(index: Index, made: list[str]) -> None:
    ready = ReadyContainers(index)
    for _ in range(3):
        assert listed(ready.all_items(index.containers())) == ["c1", "c2", "c3"]
        ready.items(index.containers())
    assert made == ["c1", "c2", "c3"]
    second = index.need_container("c2")
    index.put_container(replace(second, live=replace(second.live, phase=ContainerPhase.EXITED)))
    states = [c.state for c in pb.ListContainersResponse.FromString(ready.all_items(index.containers())).containers]
    assert states == [pb.CONTAINER_RUNNING, pb.CONTAINER_EXITED, pb.CONTAINER_RUNNING]
    assert made == ["c1", "c2", "c3", "c2"]


def test_an_unchanged_write_makes_nothing_anew(index: Index, made: list[str]) -> None:
    ready = ReadyContainers(index)
    ready.all_items(index.containers())
    index.put_container(replace(index.need_container("c1")))
    ready.all_items(index.containers())
    assert made == ["c1", "c2", "c3"]


def test_what_is_gone_is_neither_listed_nor_kept(index: Index) -> None:
    ready, ready_sandboxes = ReadyContainers(index), ReadySandboxes(index)
    ready.all_items(index.containers())
    ready_sandboxes.all_items(index.sandboxes())
    index.drop_container("c2")
    assert listed(ready.all_items(index.containers())) == ["c1", "c3"]
    assert len(ready) == 2
    index.drop_sandbox("aa")
    assert ready.all_items(index.containers()) == ready_sandboxes.all_items(index.sandboxes()) == b""
    assert len(ready) == len(ready_sandboxes) == 0


def test_a_status_follows_its_object(index: Index, make_sandbox: MakeSandbox) -> None:
    ready = ReadySandboxes(index)
    assert pb.PodSandboxStatus.FromString(ready.status(index.need_sandbox("aa"))).state == pb.SANDBOX_READY
    index.put_sandbox(make_sandbox("aa", phase=Phase.STOPPED))
    assert pb.PodSandboxStatus.FromString(ready.status(index.need_sandbox("aa"))).state == pb.SANDBOX_NOTREADY


def test_a_closed_one_follows_no_more(index: Index) -> None:
    ready = ReadyContainers(index)
    ready.close()
    ready.all_items(index.containers())
    index.drop_container("c1")
    assert len(ready) == 3


class ThreeImages:
    """What ReadyImages asks of the image service."""

    def __init__(self) -> None:
        self.index = self
        self.revision = 0
        self.images: list[EngineImage] = [EngineImage(id=f"sha256:{n}", size=n) for n in (1, 2)]
        self.lists = 0

    def list(self, wanted: ImageFilter) -> Sequence[EngineImage]:
        self.lists += 1
        name = wanted.image.image if wanted.image else ""
        return [i for i in self.images if i.id.startswith(name)]

    def pinned(self, image: EngineImage) -> bool:
        return image.id == "sha256:2"


def test_images_are_encoded_once_per_revision() -> None:
    service = ThreeImages()
    ready = ReadyImages(service)  # type: ignore[arg-type]
    for _ in range(3):
        images = pb.ListImagesResponse.FromString(ready.items(ImageFilter())).images
        assert [(i.id, i.pinned) for i in images] == [("sha256:1", False), ("sha256:2", True)]
    assert service.lists == 1
    service.images.pop()
    service.revision += 1
    assert len(pb.ListImagesResponse.FromString(ready.items(ImageFilter())).images) == 1
    named = ready.items(ImageFilter(image=ImageSpec(image="sha256:2")))
    assert named == b""
