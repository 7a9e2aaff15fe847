"""The demo leaves the images of the engine that it runs on as they were, and an engine with pods alone."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.env import demo, images, world
from tests.env.engine import TestEngine
from tests.env.http_api import EngineApiError


def listed(engine: TestEngine) -> list[tuple[str, list[str]]]:
    return sorted((i["Id"], sorted(i["RepoTags"] or ())) for i in engine.api.call("GET", "/images/json"))


def test_names_go_back_and_new_images_go(
    engine: TestEngine, busybox_image: str, tmp_path: Path, monkeypatch, nothing_left: None
) -> None:
    """The name of the demo's image is another image's, and the example leaves one of its own, as crishim does."""
    other = images.busybox().with_config(Labels={"whose": "the user"})
    users = other.load(engine.api, images.BUSYBOX_REF)
    before = listed(engine)
    example = tmp_path / "example.py"
    example.write_text(
        "from tests.env import images\nfrom tests.env.http_api import EngineApi\nfrom pathlib import Path\n"
        f"api = EngineApi(Path({str(engine.socket)!r}))\n"
        "image = api.call('GET', '/images/' + images.BUSYBOX_REF + '/json')\n"
        "assert image['Config']['Labels'] != {'whose': 'the user'}\n"
        "images.busybox().with_config(Labels={'left': 'behind'}).load(api, 'left.test/behind:1')\n"
    )
    monkeypatch.setattr(demo, "EXAMPLE", example)
    try:
        assert demo.run_example(engine.socket, []) == 0
        assert listed(engine) == before
    finally:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        engine.api.call("DELETE", f"/images/{users}")


def test_a_name_that_an_image_got_goes(
    engine: TestEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_left: None
) -> None:
    """The user has the demo's very image, by another name."""
    images.busybox().load(engine.api, "user.test/own:1")
    with contextlib.suppress(EngineApiError):  # from another test of this session
        engine.api.call("DELETE", f"/images/{images.BUSYBOX_REF}")
    before = listed(engine)
    example = tmp_path / "example.py"
    example.touch()
    monkeypatch.setattr(demo, "EXAMPLE", example)
    try:
        assert demo.run_example(engine.socket, []) == 0
        assert listed(engine) == before
    finally:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        engine.api.call("DELETE", "/images/user.test/own:1")


def test_an_engine_with_pods_is_left_alone(
    engine: TestEngine, busybox_image: str, monkeypatch: pytest.MonkeyPatch, nothing_left: None
) -> None:
    assert not demo.has_pods(engine.socket)
    body = {"Image": busybox_image, "Labels": {demo.POD_LABEL: "container"}}
    made = engine.api.call("POST", "/containers/create", json_body=body)["Id"]
    worlds: list[Sequence[str]] = []

    def main(command: Sequence[str]) -> int:
        worlds.append(command)
        return 7

    try:
        with monkeypatch.context() as patched:
            patched.setenv("DOCKER_HOST", engine.url)
            patched.setattr(world, "folder", lambda: None)
            patched.setattr(world, "main", main)
            patched.setattr(subprocess, "run", lambda *_, **__: None)  # the set-up of an engine
            assert demo.has_pods(engine.socket)
            assert demo.main(["--more"]) == 7
    finally:
        engine.api.call("DELETE", f"/containers/{made}", {"force": "true"})
    assert worlds[0][-1] == "--more"
