"""Pure parts: an image's user, credentials, where images lie."""

from __future__ import annotations

import base64
import dataclasses
import logging

import pytest

from crishim.engine.simulated.facts import default_facts
from crishim.errors import InvalidArgument
from crishim.images import image_fs
from crishim.images.image_fs import storage_folder
from crishim.images.image_user import image_user
from crishim.images.reference import parse_reference
from crishim.images.registry_auth import make_registry_auth, parse_basic_auth
from crishim.model import AuthConfig


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ("", (0, "")),
        (":5", (0, "")),
        ("0", (0, "")),
        ("1000", (1000, "")),
        ("1000:50", (1000, "")),
        ("65535:65535", (65535, "")),
        ("nobody", (None, "nobody")),
        ("nobody:nogroup", (None, "nobody")),
        ("www-data:33", (None, "www-data")),
        ("4294967295", (4294967295, "")),
        ("4294967296", (None, "4294967296")),
        ("-1", (None, "-1")),
        ("１２", (None, "１２")),
    ],
)
def test_user_of_an_image(user, shown):
    assert image_user(user) == shown


def basic(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


HUB = "https://index.docker.io/v1/"


@pytest.mark.parametrize(
    ("auth", "reference", "sent"),
    [
        (AuthConfig(username="u", password="p"), "h:1/a", ("h:1", "u", "p", "", "")),
        (AuthConfig(auth=basic("u:p:q")), "h:1/a", ("h:1", "u", "p:q", "", "")),
        (AuthConfig(auth=basic("u:")), "h:1/a", ("h:1", "u", "", "", "")),
        (AuthConfig(auth=basic("u:p\0\0")), "h:1/a", ("h:1", "u", "p", "", "")),
        (AuthConfig(username="x", password="y", auth=basic("u:p")), "h:1/a", ("h:1", "x", "y", "", "")),
        (AuthConfig(identity_token="t"), "h:1/a", ("h:1", "", "", "t", "")),
        (AuthConfig(registry_token="t"), "h:1/a", ("h:1", "", "", "", "t")),
        (AuthConfig(username="u", identity_token="t"), "h:1/a", ("h:1", "u", "", "t", "")),
        (AuthConfig(username="u", password="p"), "a", (HUB, "u", "p", "", "")),
        (AuthConfig(username="u", password="p"), "docker.io/a", (HUB, "u", "p", "", "")),
        (AuthConfig(username="u", password="p", server_address="h:1"), "a", ("h:1", "u", "p", "", "")),
        (AuthConfig(username="u", password="p", server_address="https://h:1/v2/"), "h:1/a", ("h:1", "u", "p", "", "")),
        (AuthConfig(username="u", password="p", server_address=HUB), "index.docker.io/a", (HUB, "u", "p", "", "")),
    ],
)
def test_every_form_of_credentials(auth, reference, sent):
    made = make_registry_auth(auth, parse_reference(reference))
    assert made is not None
    assert (made.server, made.username, made.password, made.identity_token, made.registry_token) == sent


@pytest.mark.parametrize("auth", [None, AuthConfig(), AuthConfig(server_address="h:1")])
def test_no_credentials(auth):
    assert make_registry_auth(auth, parse_reference("h:1/a")) is None


def test_credentials_for_another_registry_are_not_told_to_this_one(caplog):
    auth = AuthConfig(username="u", password="secret", server_address="other.example")
    with caplog.at_level(logging.WARNING):
        assert make_registry_auth(auth, parse_reference("h:1/a")) is None
    assert "other.example" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "text", ["%%%", "dXNlcg", basic("nocolon"), basic(":p"), base64.b64encode(b"\xff:\xfe").decode()]
)
def test_unreadable_auth_is_refused_without_repeating_it(text):
    with pytest.raises(InvalidArgument) as raised:
        parse_basic_auth(text)
    assert raised.value.field == "auth.auth"
    assert text not in raised.value.message


def test_storage_folder_is_the_engines_root_or_its_nearest_parent_here(tmp_path):
    facts = dataclasses.replace(default_facts("/"), data_root=str(tmp_path / "a" / "b"), containerd_store=False)
    assert storage_folder(facts) == tmp_path
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert storage_folder(facts) == tmp_path / "a" / "b"


def test_storage_folder_of_an_engine_that_was_never_reached_exists():
    assert storage_folder(None).is_dir()
    assert storage_folder(None) in (image_fs.DEFAULT_DATA_ROOT, *image_fs.DEFAULT_DATA_ROOT.parents)


def test_storage_folder_with_the_containerd_store(tmp_path, monkeypatch):
    facts = dataclasses.replace(default_facts("/"), data_root=str(tmp_path / "docker"), containerd_store=True)
    monkeypatch.setattr(image_fs, "CONTAINERD_ROOT", tmp_path / "containerd")
    assert storage_folder(facts) == tmp_path
    (tmp_path / "docker").mkdir()
    assert storage_folder(facts) == tmp_path / "docker"
    (tmp_path / "containerd").mkdir()
    assert storage_folder(facts) == tmp_path / "containerd"
    own = tmp_path / "docker" / "containerd" / "daemon"
    (own / "io.containerd.content.v1.content").mkdir(parents=True)
    assert storage_folder(facts) == own
