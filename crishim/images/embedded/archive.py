"""The embedded sandbox image as an archive for the engine's image load.

One archive serves every engine: it is an OCI image layout (index.json, oci-layout, blobs), which the containerd image
store reads, and beside it has the manifest.json that the classic store reads, with the same blobs.  Equal input gives
equal bytes, so the image has one id for ever: the tag carries a part of it, and a version of crishim with another
pause program loads another image instead of replacing one that pods use.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from importlib import resources
from typing import Any

from crishim.errors import EngineUnsuitable

REPOSITORY = "crishim.local/pause"
"""Name of the image; the host cannot exist, so nobody pulls or pushes it by accident."""

LABELS = {"io.crishim.image": "pause"}
"""Labels by which the image is found, whatever its id is called by the engine's image store."""

ARCHITECTURES = ("amd64", "arm64")
"""Architectures, as Go names them, for which the pause program is in the package."""

_ALIASES = {"x86_64": "amd64", "aarch64": "arm64"}  # uname's names, which an engine's info gives

_CREATED = "2000-01-01T00:00:00Z"  # fixed: the time is part of the id
_MTIME = 946684800  # the same moment
_USER = 65535  # nobody, as every Kubernetes pause image


@dataclass(frozen=True)
class EmbeddedImage:
    """An image ready to be loaded, and what it will be known by."""

    tag: str
    """Full reference, `crishim.local/pause:…`."""
    config_digest: str
    """The image's id in the classic store (`sha256:…`)."""
    manifest_digest: str
    """The image's id in the containerd image store (`sha256:…`)."""
    tar: bytes


def make_archive(arch: str) -> EmbeddedImage:
    """Return the image for engines on machines of `arch` (Go's name or uname's: `amd64` or `x86_64`, …).

    Raises EngineUnsuitable for an architecture that the package has no pause program for.
    """
    arch = _ALIASES.get(arch, arch)
    if arch not in ARCHITECTURES:
        raise EngineUnsuitable(
            f"there is no embedded sandbox image for {arch!r} machines (only for {', '.join(ARCHITECTURES)}): "
            "name an image with --sandbox-image"
        )
    program = resources.files(__package__).joinpath(f"pause.{arch}.elf").read_bytes()
    layer = _tar([("pause", 0o755, program)])
    config = _json(
        {
            "architecture": arch,
            "os": "linux",
            "created": _CREATED,
            "config": {
                "User": f"{_USER}:{_USER}",
                "Entrypoint": ["/pause"],
                "WorkingDir": "/",
                "Labels": LABELS,
                "StopSignal": "SIGTERM",
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            "history": [{"created": _CREATED, "created_by": "crishim"}],
        }
    )
    kind = "application/vnd.oci.image"
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}.manifest.v1+json",
            "config": _descriptor(f"{kind}.config.v1+json", config),
            "layers": [_descriptor(f"{kind}.layer.v1.tar", layer)],
        }
    )
    version = _digest(config).removeprefix("sha256:")[:10]  # 12 would read as an image id
    tag = f"{REPOSITORY}:{version}"
    entry = _descriptor(f"{kind}.manifest.v1+json", manifest) | {
        "platform": {"architecture": arch, "os": "linux"},
        "annotations": {"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": version},
    }
    index = {"schemaVersion": 2, "mediaType": f"{kind}.index.v1+json", "manifests": [entry]}
    classic = [{"Config": _blob(config), "RepoTags": [tag], "Layers": [_blob(layer)]}]
    blobs = sorted((_blob(content), 0o644, content) for content in (layer, config, manifest))
    texts = {"index.json": index, "manifest.json": classic, "oci-layout": {"imageLayoutVersion": "1.0.0"}}
    files = [*blobs, *((name, 0o644, _json(content)) for name, content in texts.items())]
    return EmbeddedImage(tag, _digest(config), _digest(manifest), _tar(files))


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _blob(content: bytes) -> str:
    return "blobs/" + _digest(content).replace(":", "/")


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _tar(files: list[tuple[str, int, bytes]]) -> bytes:
    """Return a plain POSIX tar of `files` (name, mode, content), all of root and of one fixed time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, mode, content in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, _MTIME
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
