"""PullImage: references, credentials, many askers, cancelling, stalling."""

from __future__ import annotations

import asyncio
import base64
import dataclasses

import pytest

from crishim.aiokit.background import Background
from crishim.engine.simulated import Drop, Fail, Hang, SimulatedEngine, settle
from crishim.engine.simulated.images import digest_of, made_up
from crishim.engine.values import PullProgress, RegistryAuth
from crishim.errors import (
    EngineError,
    EngineTimeout,
    EngineUnavailable,
    ImageNotFound,
    InvalidArgument,
    RegistryUnavailable,
    UnknownRuntimeHandler,
)
from crishim.images.service import Images, ImageSettings
from crishim.model import AuthConfig, ImageSpec

D = digest_of("something")
APP = made_up("host.example/app:1")
SPEC = ImageSpec(image="host.example/app:1")


@pytest.fixture
def asked(node) -> list[tuple[str, RegistryAuth | None]]:
    """What each pull asked of the engine."""
    seen: list[tuple[str, RegistryAuth | None]] = []
    node.engine.script("pull", Fail(EngineError("never")), match=lambda *call: seen.append(call))
    return seen


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("app", "docker.io/library/app:latest"),
        ("host.example/app:1", "host.example/app:1"),
        (f"host.example/app@{D}", f"host.example/app@{D}"),
        (f"host.example/app:1@{D}", f"host.example/app@{D}"),
    ],
)
async def test_what_is_pulled_and_what_its_id_is(node, asked, text, reference):
    image_id = await node.images.pull(ImageSpec(image=text, annotations={"any": "thing"}))
    assert asked == [(reference, None)]
    image = await node.images.status(ImageSpec(image=text))
    assert image is not None
    assert image_id == image.id == (await node.images.status(ImageSpec(image=image_id))).id
    node.check_truth()


async def test_after_a_pull_status_asks_nothing(node):
    await node.images.pull(SPEC)
    node.engine.calls.clear()
    assert await node.images.status(SPEC) == APP
    assert not node.engine.calls


async def test_a_tag_that_moved_is_the_new_image_and_the_old_one_is_nameless(node):
    old = node.engine.images.add(dataclasses.replace(made_up("old:1"), tags=("host.example/app:1",)))
    await node.images.refresh()
    node.engine.calls.clear()
    # The simulated registry pulls nothing under a name that is there: let the tag move as a pull would move it.
    node.engine.images.add(APP)
    assert await node.images.pull(SPEC) == APP.id
    assert node.images.index.get(old.id).tags == ()
    await node.quiet()
    assert node.engine.calls["inspect_image"] == 2, "the loser of the tag is read anew"
    node.check_truth()


@pytest.mark.parametrize("text", ["", "Bad", "sha256:" + "0" * 64, "0" * 64, "a b", "app:", f"app@{D}x"])
async def test_a_bad_reference_is_refused_before_anything(node, text):
    with pytest.raises(InvalidArgument, match=r"^image\.image: "):
        await node.images.pull(ImageSpec(image=text))
    assert not node.engine.calls


async def test_runtime_handlers(node):
    for handler in ("", "runc"):
        await node.images.pull(ImageSpec(image="app", runtime_handler=handler))
    node.engine.calls.clear()
    with pytest.raises(UnknownRuntimeHandler, match="kata"):
        await node.images.pull(ImageSpec(image="app", runtime_handler="kata"))
    assert not node.engine.calls


async def test_credentials_reach_the_engine(node, asked):
    auth = AuthConfig(auth=base64.b64encode(b"u:p").decode())
    await node.images.pull(SPEC, auth)
    assert asked == [("host.example/app:1", RegistryAuth(server="host.example", username="u", password="p"))]


async def test_bad_credentials_are_refused_before_anything(node):
    with pytest.raises(InvalidArgument, match=r"^auth\.auth: "):
        await node.images.pull(SPEC, AuthConfig(auth="!"))
    assert not node.engine.calls


async def test_one_pull_for_all_who_ask_at_once(node):
    ids = await asyncio.gather(*(node.images.pull(SPEC, AuthConfig(username="u", password="p")) for _ in range(10)))
    assert set(ids) == {APP.id}
    assert node.engine.calls["pull"] == 1
    await node.images.pull(SPEC)
    assert node.engine.calls["pull"] == 2


async def test_other_credentials_are_another_pull(node):
    """One who may not have the image must not get it by asking at the same moment as one who may."""
    one, two = AuthConfig(username="u", password="p"), AuthConfig(username="u", password="q")
    wrong = EngineError("denied")
    node.engine.script("pull", Fail(wrong), match=lambda ref, auth: auth is None or auth.password == "q")
    results = await asyncio.gather(node.images.pull(SPEC, one), node.images.pull(SPEC, two), return_exceptions=True)
    assert list(results) == [APP.id, wrong]


@pytest.mark.parametrize(
    "error", [RegistryUnavailable("no route"), ImageNotFound("manifest unknown"), EngineError("denied")]
)
async def test_an_error_inside_the_stream_is_the_calls_error_for_all_askers(node, error):
    node.engine.registry_failures["host.example/app:1"] = error
    results = await asyncio.gather(*(node.images.pull(SPEC) for _ in range(3)), return_exceptions=True)
    assert results == [error, error, error]
    node.engine.registry_failures.clear()
    assert await node.images.pull(SPEC) == APP.id
    node.check_truth()


@pytest.mark.parametrize("fault", [Drop(), Fail(EngineUnavailable("away"))])
async def test_an_engine_that_breaks_off_is_told_and_the_next_pull_succeeds(node, fault):
    node.engine.script("pull", fault)
    with pytest.raises(EngineUnavailable):
        await node.images.pull(SPEC)
    assert node.engine.pulls_under_way == 0
    assert await node.images.pull(SPEC) == APP.id
    node.check_truth()


async def test_the_inspect_after_it_fails(node):
    node.engine.script("inspect_image", Drop())
    with pytest.raises(EngineUnavailable):
        await node.images.pull(SPEC)
    assert await node.images.pull(SPEC) == APP.id
    node.check_truth()


async def test_an_image_that_is_removed_the_moment_it_was_pulled(node):
    def remove(reference):
        node.engine.images.remove(APP.id, [])
        return False

    node.engine.script("inspect_image", Drop(), match=remove)
    with pytest.raises(ImageNotFound):
        await node.images.pull(SPEC)
    node.check_truth()


async def test_it_stops_when_the_last_asker_has_gone_and_not_before(node):
    node.engine.script("pull", Hang())
    first, second = (asyncio.create_task(node.images.pull(SPEC)) for _ in range(2))
    await node.engine.called("pull")
    await settle()
    first.cancel()
    await asyncio.wait((first,))
    assert (node.engine.pulls_under_way, node.engine.hanging) == (1, 1)
    second.cancel()
    await asyncio.wait((second,))
    assert (node.engine.pulls_under_way, node.engine.hanging) == (0, 0)
    assert await node.images.pull(SPEC) == APP.id
    node.check_truth()


async def test_cancelled_at_every_await(new_node, every_await):
    async def make():
        return new_node()

    async for node in every_await(make, lambda node: node.images.pull(SPEC)):
        assert node.engine.pulls_under_way == 0
        await node.images.refresh()
        node.check_truth()
        assert await node.images.pull(SPEC) == APP.id


def test_a_pull_that_never_answers_is_the_registrys_fault(in_virtual_time, new_node):
    async def test():
        node = new_node(pull_stall_limit=60)
        node.engine.script("pull", Hang())
        with pytest.raises(RegistryUnavailable, match=r"no progress for 60 s \(Pulling fs layer\)"):
            await node.images.pull(SPEC)
        assert (node.engine.pulls_under_way, node.engine.hanging) == (0, 0)
        assert asyncio.get_running_loop().time() == pytest.approx(60)

    in_virtual_time(test)


class Talker(SimulatedEngine):
    """An engine whose pull says a line every second, and then hangs."""

    def __init__(self, *lines: PullProgress) -> None:
        super().__init__()
        self.lines = lines

    async def _pull_stream(self, reference, fault):
        for line in self.lines:
            yield line
            await asyncio.sleep(1)
        await asyncio.get_running_loop().create_future()


def lines(stage: str, counts=(0,)) -> list[PullProgress]:
    return [PullProgress(layer="a", stage=stage, current=n, total=999) for n in counts]


@pytest.mark.parametrize(
    ("talk", "error", "stage", "seconds"),
    [
        ([], RegistryUnavailable, "no answer yet", 60),
        (lines("Downloading", [5] * 500), RegistryUnavailable, "Downloading", 60),  # repeated lines are no progress
        (lines("Downloading", range(200)), RegistryUnavailable, "Downloading", 199 + 60),  # each new count is
        (lines("Downloading") + lines("Verifying Checksum"), EngineTimeout, "Verifying Checksum", 1 + 600),
        (lines("Extracting", range(100)), EngineTimeout, "Extracting", 99 + 600),
        (lines("Extracting") + lines("Pull complete"), RegistryUnavailable, "Pull complete", 1 + 60),
    ],
)
def test_when_a_pull_counts_as_stalled(in_virtual_time, talk, error, stage, seconds):
    async def test():
        engine = Talker(*talk)
        with pytest.raises(error, match=rf"no progress for .* s \({stage}\)"):
            await Images(lambda: engine, Background()).pull(SPEC)
        assert asyncio.get_running_loop().time() == pytest.approx(seconds)
        assert engine.pulls_under_way == 0

    in_virtual_time(test)


def test_no_limit(in_virtual_time):
    async def test():
        engine = Talker(*lines("Downloading"))
        settings = ImageSettings(pull_stall_limit=0, pull_work_limit=0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1_000_000):
                await Images(lambda: engine, Background(), settings=settings).pull(SPEC)
        assert engine.pulls_under_way == 0

    in_virtual_time(test)
