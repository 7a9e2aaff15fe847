"""The embedded image's archive: what is in it, and that it is always the same."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import Any

import pytest

from crishim.errors import EngineUnsuitable
from crishim.images.embedded import ARCHITECTURES, LABELS, REPOSITORY, make_archive


def members(tar: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    content = files["blobs/" + descriptor["digest"].replace(":", "/")]
    assert descriptor["size"] == len(content)
    assert descriptor["digest"] == "sha256:" + hashlib.sha256(content).hexdigest()
    return content


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_two_ways_in_lead_to_the_same_blobs(arch):
    image = make_archive(arch)
    files = members(image.tar)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}

    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == image.manifest_digest
    assert entry["annotations"]["io.containerd.image.name"] == image.tag
    assert entry["platform"] == {"architecture": arch, "os": "linux"}
    manifest = json.loads(blob(files, entry))
    config = blob(files, manifest["config"])
    (layer,) = (blob(files, descriptor) for descriptor in manifest["layers"])
    assert manifest["config"]["digest"] == image.config_digest

    (classic,) = json.loads(files["manifest.json"])
    assert classic["RepoTags"] == [image.tag]
    assert files[classic["Config"]] == config
    assert [files[name] for name in classic["Layers"]] == [layer]
    assert len(files) == 6

    read = json.loads(config)
    assert read["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    assert read["architecture"] == arch
    assert read["config"]["Labels"] == LABELS
    assert read["config"]["Entrypoint"] == ["/pause"]
    assert read["config"]["User"] == "65535:65535"

    with tarfile.open(fileobj=io.BytesIO(layer)) as content:
        (program,) = content.getmembers()
    assert (program.name, program.mode, program.uid, program.gid, program.isreg()) == ("pause", 0o755, 0, 0, True)
    assert members(layer)["pause"].startswith(b"\x7fELF")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_equal_input_gives_equal_bytes(arch):
    assert make_archive(arch) == make_archive(arch)


def test_the_id_changes_only_with_the_content():
    """A change here is a new image on every node: intended when the pause program or the config changes, else not."""
    assert {arch: make_archive(arch).config_digest for arch in ARCHITECTURES} == {
        "amd64": "sha256:06f5256389308e7870917cfc428ee193687841eb2b0e9432357fc3a965383261",
        "arm64": "sha256:ffc2789065a4ea1e9085ca20576e4a66c0fedd587fde4e7caf45fd438cf0531c",
    }


def test_tags_differ_by_content_and_are_no_image_ids():
    tags = [make_archive(arch).tag for arch in ARCHITECTURES]
    assert len(set(tags)) == len(tags)
    for arch, tag in zip(ARCHITECTURES, tags, strict=True):
        repository, _, version = tag.rpartition(":")
        assert repository == REPOSITORY
        assert make_archive(arch).config_digest.startswith(f"sha256:{version}")


def test_architectures_by_the_names_that_engines_use():
    assert make_archive("x86_64") == make_archive("amd64")
    assert make_archive("aarch64") == make_archive("arm64")
    with pytest.raises(EngineUnsuitable, match=r"riscv64.*--sandbox-image"):
        make_archive("riscv64")
