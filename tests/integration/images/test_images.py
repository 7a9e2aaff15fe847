"""The other image verbs on a real engine: reads that stay true, removal of all or nothing, the sandbox image."""

from __future__ import annotations

import asyncio
import os

import pytest

from crishim.errors import ImageInUse, InvalidArgument
from crishim.images.embedded import make_archive
from crishim.model import ImageFilter, ImageSpec
from tests.env.images import File, make_image

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("nothing_left")]


def image(text: str, **config):
    return make_image({"Cmd": ["/x"], **config}, [File("x", text.encode() * 1000)])


def spec(text: str) -> ImageSpec:
    return ImageSpec(image=text)


async def named(node, registry, what: str) -> tuple[str, list[str]]:
    """An image with four names in two repositories; its id and everything that it can be called by."""
    digest = registry.push(image(what), f"{what}:1")
    reference = registry.ref(f"{what}:1")
    image_id = await node.images.pull(spec(reference))
    api = node.world.api
    for repository, tag in ((registry.ref(what), "2"), (f"local/{what}", "3")):
        api.call("POST", f"/images/{image_id}/tag", {"repo": repository, "tag": tag})
    await node.images.refresh()
    names = [reference, registry.ref(f"{what}:2"), f"local/{what}:3", f"docker.io/local/{what}:3"]
    return image_id, [*names, registry.ref(f"{what}@{digest}"), image_id, image_id[7:], image_id[7:19]]


async def test_all_references_mean_one_image(node, registry):
    image_id, references = await named(node, registry, "resolve")
    for text in references:
        assert (await node.images.status(spec(text))).id == image_id
        assert [i.id for i in node.images.list(ImageFilter(image=spec(text)))] == [image_id]
        assert (await node.images.resolve_for_container(text)).id == image_id
    assert await node.images.status(spec(f"{image_id[7:19]}:1")) is None
    assert await node.images.status(spec("local/resolve:4")) is None


async def test_what_the_index_says_is_what_the_engine_says(node, registry):
    await named(node, registry, "compare")
    listed = {i.id: (set(i.tags), set(i.digests)) for i in node.images.list()}
    assert set(listed) == node.known()
    for image_id, names in listed.items():
        assert names == node.names(image_id)


async def test_an_image_that_was_loaded_has_no_digest_and_is_found_at_once(node):
    loaded = image("loaded").load(node.world.api, "local/loaded:1")
    found = await node.images.status(spec("local/loaded:1"))
    assert (found.id, found.tags) == (loaded, ("local/loaded:1",))
    assert await node.images.status(spec(loaded)) == found


async def test_events_keep_the_index_true(node):
    api = node.world.api

    async def until(condition) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - events of the real engine, which tell nobody when they are digested
                await asyncio.sleep(0.01)

    resolve = node.images.index.resolve
    async with node.listening():
        loaded = image("events").load(api, "local/events:1")
        await until(lambda: resolve("local/events:1") is not None)
        api.call("POST", f"/images/{loaded}/tag", {"repo": "local/events", "tag": "2"})
        await until(lambda: resolve("local/events:2") is not None)
        other = image("other events").load(api, "local/events:other")
        api.call("POST", f"/images/{other}/tag", {"repo": "local/events", "tag": "2"})
        await until(lambda: resolve("local/events:2").id == other)
        assert resolve(loaded).tags == ("local/events:1",)
        api.call("DELETE", "/images/local/events:2")
        await until(lambda: resolve("local/events:2") is None)
        api.call("DELETE", f"/images/{loaded}")
        await until(lambda: resolve(loaded) is None)
        await node.background.drain(5)
    before = node.images.list()
    await node.images.refresh()
    assert {i.id: i for i in node.images.list()} == {i.id: i for i in before}


@pytest.mark.parametrize("nth", range(8))
async def test_any_reference_removes_the_whole_image(node, registry, nth):
    image_id, references = await named(node, registry, f"remove{nth}")
    await node.images.remove(spec(references[nth]))
    assert image_id not in node.known()
    for text in references:
        assert await node.images.status(spec(text)) is None
        await node.images.remove(spec(text))


async def test_ten_at_once_all_succeed(node, registry, scaled):
    for turn in range(scaled(30)):
        image_id, references = await named(node, registry, f"parallel{turn}")
        await asyncio.gather(*(node.images.remove(spec(text)) for text in (references * 2)[:10]))
        assert image_id not in node.known()


async def test_ten_at_once_from_nodes_that_do_not_know_of_each_other(new_node, registry):
    """As when docker rmi and the kubelet remove the same image."""
    first = new_node()
    image_id, references = await named(first, registry, "strangers")
    others = [new_node() for _ in range(4)]
    await asyncio.gather(
        *(n.images.remove(spec(image_id)) for n in (first, *others)), first.images.remove(spec(references[0]))
    )
    assert image_id not in first.known()


@pytest.mark.parametrize("nth", range(8))
async def test_in_use_by_a_stopped_container_no_name_is_lost(node, registry, nth):
    image_id, references = await named(node, registry, f"used{nth}")
    before = node.names(image_id)
    async with node.container(references[1]) as container:
        with pytest.raises(ImageInUse, match=container[:13]):
            await node.images.remove(spec(references[nth]))
        assert node.names(image_id) == before
        assert await node.images.status(spec(references[0])) is not None
    await node.images.remove(spec(references[nth]))
    assert image_id not in node.known()


async def test_in_use_by_one_of_ours_the_engine_is_not_even_asked(node, registry):
    image_id, references = await named(node, registry, "ours")
    node.users[image_id] = ["abc"]
    before = node.names(image_id)
    with pytest.raises(ImageInUse, match="abc"):
        await node.images.remove(spec(references[0]))
    assert node.names(image_id) == before


async def test_a_container_made_in_the_middle_of_the_removal_costs_no_name(node, registry, monkeypatch):
    image_id, references = await named(node, registry, "raced")
    before = node.names(image_id)
    real = node.docker.remove_image

    async with asyncio.timeout(30):
        containers: list[str] = []

        async def late(reference: str) -> None:
            body = {"Image": image_id, "Cmd": ["/x"]}
            containers.append(node.world.api.call("POST", "/containers/create", json_body=body)["Id"])
            await real(reference)

        monkeypatch.setattr(node.docker, "remove_image", late)
        with pytest.raises(ImageInUse):
            await node.images.remove(spec(references[0]))
        assert node.names(image_id) == before
        node.world.api.call("DELETE", f"/containers/{containers[0]}")


async def test_an_image_that_another_is_built_on_keeps_its_names_if_it_cannot_go(node, registry):
    image_id, references = await named(node, registry, "base")
    before = node.names(image_id)
    async with node.container(image_id) as container:
        query = {"container": container, "repo": "local/child", "tag": "1"}
        child = node.world.api.call("POST", "/commit", query, json_body={})["Id"]
    async with node.container("local/child:1") as container:
        with pytest.raises(ImageInUse, match=container[:13]):
            await node.images.remove(spec("local/child:1"))
        try:
            await node.images.remove(spec(references[0]))
        except ImageInUse:
            assert node.names(image_id) == before
        else:
            assert image_id not in node.known()  # its layers live on in the other
    await node.images.remove(spec(child))
    await node.images.remove(spec(references[0]))
    assert image_id not in node.known()


async def test_missing_ones_and_bad_ones(node):
    for text in ("local/absent", "sha256:" + "0" * 64, "0" * 64, "127.0.0.1:1/x@sha256:" + "0" * 64):
        await node.images.remove(spec(text))
        assert await node.images.status(spec(text)) is None
    for text in ("", "Bad", "../x", "x?y", "a b", "sha256:"):
        with pytest.raises(InvalidArgument):
            await node.images.remove(spec(text))
        with pytest.raises(InvalidArgument):
            await node.images.status(spec(text))


async def test_the_embedded_sandbox_image_comes_and_comes_back(node):
    expected = make_archive(os.uname().machine)
    ids = await asyncio.gather(*(node.images.ensure_sandbox_image() for _ in range(5)))
    assert set(ids) <= {expected.config_digest, expected.manifest_digest}
    assert len(set(ids)) == 1
    found = node.images.index.get(ids[0])
    assert found.tags == (expected.tag,)
    assert node.images.pinned(found)
    assert found.size > 0
    await node.images.remove(spec(expected.tag))
    assert await node.images.ensure_sandbox_image() == ids[0]
    node.world.api.call("DELETE", f"/images/{expected.tag}")
    assert await node.images.recheck(ids[0]) is None
    assert await node.images.ensure_sandbox_image() == ids[0]
    assert ids[0] in node.known()


async def test_a_configured_sandbox_image_is_pulled(new_node, registry):
    registry.push(image("pause"), "pause:1")
    node = new_node(sandbox_image=registry.ref("pause:1"))
    image_id = await node.images.ensure_sandbox_image()
    assert node.images.pinned(node.images.index.get(image_id))
    await node.images.remove(spec(image_id))
    assert await node.images.ensure_sandbox_image() == image_id


async def test_fs_info_tells_of_the_engines_folder(node, registry):
    await named(node, registry, "filesystem")
    info = await node.images.fs_info()
    root = node.world.api.call("GET", "/info")["DockerRootDir"]
    assert os.path.isdir(info.image.mountpoint)
    assert os.stat(info.image.mountpoint).st_dev == os.stat(root).st_dev
    assert info.image.used_bytes == sum(i.size for i in node.images.list()) > 0
    system = os.statvfs(root)
    used = system.f_files - system.f_ffree
    assert info.image.inodes_used == pytest.approx(used, rel=0.05), "others use the disk, too"
    assert info.containers == info.image
