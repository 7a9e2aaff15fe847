"""The file with the sandbox image's credentials: which entry is taken, and what is told of a bad file."""

import json

import pytest

from crishim.errors import InvalidArgument
from crishim.images.credentials_file import read_credentials


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.json"


@pytest.mark.parametrize(
    ("server", "image"),
    [
        ("host.example", "host.example/pause:3"),
        ("https://host.example/v2/", "host.example/a/b@sha256:" + "0" * 64),
        ("127.0.0.1:5000", "127.0.0.1:5000/pause"),
        ("https://index.docker.io/v1/", "pause"),
    ],
)
def test_the_entry_of_the_images_registry(file, server, image):
    file.write_text(json.dumps({"auths": {"other.example": {"auth": "eDp5"}, server: {"auth": "dTpw"}}}))
    found = read_credentials(file, image)
    assert found is not None
    assert (found.auth, found.server_address) == ("dTpw", server)


def test_tokens(file):
    entry = {"identitytoken": "i", "registrytoken": "r"}
    file.write_text(json.dumps({"auths": {"host.example": entry}}))
    found = read_credentials(file, "host.example/x")
    assert found is not None
    assert (found.identity_token, found.registry_token) == ("i", "r")


@pytest.mark.parametrize("content", [{}, {"auths": {}}, {"auths": {"other.example": {"auth": "eDp5"}}}])
def test_none_for_a_registry_without_an_entry(file, content):
    file.write_text(json.dumps(content))
    assert read_credentials(file, "host.example/x") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("[]", "no object"),
        ('{"auths": 3}', "no object"),
        ('{"auths": {"host.example": {}}, "credsStore": "desktop"}', "helper program"),
        ('{"credHelpers": {"host.example": "x"}}', "helper program"),
    ],
)
def test_bad_files_are_told(file, text, told):
    file.write_text(text)
    with pytest.raises(InvalidArgument, match=told) as caught:
        read_credentials(file, "host.example/x")
    assert caught.value.field == "sandbox_image_credentials"


def test_a_missing_file(file):
    with pytest.raises(InvalidArgument, match="No such file"):
        read_credentials(file, "host.example/x")
