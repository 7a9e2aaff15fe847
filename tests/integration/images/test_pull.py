"""PullImage with real engine and registries: references, every form of credential, failures, cancelling, stalling."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import random

import pytest

from crishim.errors import CRIError, ImageNotFound, InvalidArgument, Kind, RegistryUnavailable
from crishim.model import AuthConfig, ImageSpec
from tests.env.images import File, make_image, sha256

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("nothing_left")]


def image(text: str, **config):
    """A small image of its own for each test."""
    return make_image({"Cmd": ["/x"], **config}, [File("x", text.encode() * 1000)])


async def test_by_tag_digest_both_and_neither(node, registry):
    wanted = image("pull forms", User="1000:50")
    digest = registry.push(wanted, "forms:1")
    registry.push(wanted, "forms:latest")
    for text in ("forms:1", f"forms@{digest}", f"forms:1@{digest}", "forms", f"forms:other@{digest}"):
        reference = registry.ref(text)
        image_id = await node.images.pull(ImageSpec(image=reference))
        found = await node.images.status(ImageSpec(image=reference))
        assert found is not None
        assert found.id == image_id
        assert image_id in node.known()
        assert (await node.images.status(ImageSpec(image=image_id))) == found
        assert found.size > 0
        assert found.user == "1000:50"
    assert registry.ref(f"forms@{digest}") in found.digests
    assert set(found.tags) == {registry.ref("forms:1"), registry.ref("forms:latest")}
    assert [i.id for i in node.images.list()].count(image_id) == 1


async def test_by_digest_alone_it_has_no_tag(node, registry):
    digest = registry.push(image("by digest"), "digested:1")
    await node.images.pull(ImageSpec(image=registry.ref(f"digested@{digest}")))
    found = await node.images.status(ImageSpec(image=registry.ref(f"digested@{digest}")))
    assert found is not None
    assert (found.tags, found.digests) == ((), (registry.ref(f"digested@{digest}"),))
    assert await node.images.status(ImageSpec(image=registry.ref("digested:1"))) is None


async def test_a_tag_that_moved_in_the_registry(node, registry):
    registry.push(image("before the move"), "moving:1")
    first = await node.images.pull(ImageSpec(image=registry.ref("moving:1")))
    registry.push(image("after the move"), "moving:1")
    second = await node.images.pull(ImageSpec(image=registry.ref("moving:1")))
    assert first != second
    assert (await node.images.status(ImageSpec(image=registry.ref("moving:1")))).id == second
    assert (await node.images.status(ImageSpec(image=first))).tags == ()
    await node.background.drain(5)  # the old one is read anew: with its tag it may have lost its digest
    moved = {i.id: i for i in node.images.list()}
    await node.images.refresh()
    assert {i.id: i for i in node.images.list()} == moved


async def test_an_image_without_any_layer_has_a_size(node, scripted):
    scripted.add(make_image({"Cmd": ["/x"]}), "empty:1")
    image_id = await node.images.pull(ImageSpec(image=f"{scripted.address}/empty:1"))
    size = node.world.api.call("GET", f"/images/{image_id}/json")["Size"]  # 0 in the classic store
    assert (await node.images.status(ImageSpec(image=image_id))).size == max(size, 1)


def forms(username: str, password: str, server: str) -> dict[str, AuthConfig]:
    basic = base64.b64encode(f"{username}:{password}".encode()).decode()
    return {
        "username and password": AuthConfig(username=username, password=password),
        "auth": AuthConfig(auth=basic),
        "auth beside an empty server": AuthConfig(auth=basic, server_address=""),
        "with the server": AuthConfig(username=username, password=password, server_address=server),
        "with the server as an address": AuthConfig(auth=basic, server_address=f"http://{server}/v2/"),
    }


@pytest.mark.parametrize("form", list(forms("", "", "")))
async def test_a_password_in_every_form(node, auth_registry, form):
    auth_registry.push(image(f"secret {form}"), "secret:1")
    spec = ImageSpec(image=auth_registry.ref("secret:1"))
    auth = forms(auth_registry.username, auth_registry.password, auth_registry.address)[form]
    image_id = await node.images.pull(spec, auth)
    assert (await node.images.status(spec)).id == image_id


@pytest.mark.parametrize(
    "auth",
    [
        None,
        AuthConfig(username="crishim", password="wrong"),
        AuthConfig(username="crishim", password="not-a-secret", server_address="elsewhere.example"),
    ],
)
async def test_without_the_right_password(node, auth_registry, auth):
    auth_registry.push(image("locked"), "locked:1")
    spec = ImageSpec(image=auth_registry.ref("locked:1"))
    with pytest.raises(CRIError) as raised:
        await node.images.pull(spec, auth)
    assert raised.value.kind is Kind.PERMISSION_DENIED
    assert await node.images.status(spec) is None


async def test_a_registry_token(node, scripted):
    scripted.add(image("registry token"), "tokens:1")
    scripted.bearer = "let-me-in"
    spec = ImageSpec(image=f"{scripted.address}/tokens:1")
    with pytest.raises(CRIError):
        await node.images.pull(spec, AuthConfig(registry_token="wrong"))
    assert await node.images.pull(spec, AuthConfig(registry_token="let-me-in")) in node.known()
    assert not any("refresh_token" in form for form in scripted.forms)


async def test_an_identity_token(node, scripted):
    scripted.add(image("identity token"), "tokens:2")
    scripted.bearer = "made-of-it"
    spec = ImageSpec(image=f"{scripted.address}/tokens:2")
    assert await node.images.pull(spec, AuthConfig(identity_token="who-i-am")) in node.known()
    assert {form.get("refresh_token") for form in scripted.forms} == {"who-i-am"}


async def test_unreadable_credentials(node, registry):
    with pytest.raises(InvalidArgument):
        await node.images.pull(ImageSpec(image=registry.ref("x:1")), AuthConfig(auth="%%"))


async def test_what_is_not_in_the_registry(node, registry):
    registry.push(image("there"), "there:1")
    for text in ("there:2", f"there@{sha256(b'none')}", "nowhere:1"):
        with pytest.raises(ImageNotFound):
            await node.images.pull(ImageSpec(image=registry.ref(text)))


async def test_a_registry_that_is_not_there(node, scripted):
    address = scripted.address
    await scripted.__aexit__()
    with pytest.raises(RegistryUnavailable) as raised:
        await node.images.pull(ImageSpec(image=f"{address}/x:1"))
    assert raised.value.message.startswith("RegistryUnavailable: ")


async def test_an_error_inside_the_stream(node, scripted):
    (layer,) = scripted.add(image("corrupt"), "corrupt:1")
    scripted.lie.add(layer)
    spec = ImageSpec(image=f"{scripted.address}/corrupt:1")
    with pytest.raises(CRIError):
        await node.images.pull(spec)
    assert await node.images.status(spec) is None


async def test_one_pull_for_all_who_ask_at_once(node, scripted):
    scripted.add(image("many askers"), "many:1")
    spec = ImageSpec(image=f"{scripted.address}/many:1")
    ids = await asyncio.gather(*(node.images.pull(dataclasses.replace(spec)) for _ in range(10)))
    assert len(set(ids)) == 1
    pulls = {path: n for path, n in scripted.requests.items() if path.startswith("GET ") and "/manifests/" in path}
    assert sum(pulls.values()) == 1, pulls


async def test_the_engine_stops_when_the_last_asker_has_gone_and_not_before(node, scripted):
    (layer,) = scripted.add(
        make_image({"Cmd": ["/x"]}, [File("x", random.Random(1).randbytes(32_000_000))]), "cancelled:1"
    )
    scripted.trickle.add(layer)
    spec = ImageSpec(image=f"{scripted.address}/cancelled:1")
    first, second = (asyncio.create_task(node.images.pull(spec)) for _ in range(2))
    await scripted.until_busy(1)
    first.cancel()
    await asyncio.wait((first,))
    assert scripted.busy == 1
    second.cancel()
    await asyncio.wait((second,))
    await scripted.until_busy(0)  # the engine has closed its connection to the registry
    assert await node.images.status(spec) is None
    scripted.trickle.clear()
    assert await node.images.pull(spec) in node.known()


async def test_a_pull_that_no_longer_moves(new_node, scripted):
    node = new_node(pull_stall_limit=1)
    (layer,) = scripted.add(image("stalled"), "stalled:1")
    scripted.hang.add(layer)
    spec = ImageSpec(image=f"{scripted.address}/stalled:1")
    with pytest.raises(RegistryUnavailable, match="no progress for 1 s"):
        await node.images.pull(spec)
    # Engine 20.10 has given up, but its reader stays in a read from the registry until that moves or closes.
    scripted.hang.clear()
    assert await node.images.pull(spec) in node.known()


async def test_a_pull_that_moves_slowly_is_no_stall(new_node, scripted):
    node = new_node(pull_stall_limit=2)
    (layer,) = scripted.add(make_image({"Cmd": ["/x"]}, [File("x", random.Random(2).randbytes(32_000_000))]), "slow:1")
    scripted.trickle.add(layer)
    pull = asyncio.create_task(node.images.pull(ImageSpec(image=f"{scripted.address}/slow:1")))
    done, _ = await asyncio.wait((pull,), timeout=3)
    assert not done
    assert scripted.busy == 1
    pull.cancel()
    await asyncio.wait((pull,))
    await scripted.until_busy(0)


async def test_a_registry_that_never_answers_at_all(new_node, scripted):
    node = new_node(pull_stall_limit=1)

    async def silent(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(RegistryUnavailable, match="no progress"):
        await node.images.pull(ImageSpec(image=f"127.0.0.1:{port}/x:1"))
    server.close()
