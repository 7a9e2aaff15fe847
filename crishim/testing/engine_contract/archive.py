"""A tiny image as `docker save` writes one: one file, and a configuration of its own."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from typing import Any

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def tiny_archive(*names: str, **config: Any) -> bytes:
    """An archive of one image with these names. `config`: keys of the OCI image configuration (`User=`, `Cmd=`).

    The same configuration gives the same image; the first name is part of it, so that others give others.
    """
    layer = _tar({"etc/crishim": b"made by a check\n"})
    layer_digest = hashlib.sha256(layer).hexdigest()
    document = {
        "architecture": _MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "created": "2024-01-02T03:04:05.678Z",
        "author": names[0] if names else "nobody",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
    }
    blob = json.dumps(document).encode()
    config_name = f"{hashlib.sha256(blob).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": list(names), "Layers": [f"{layer_digest}/layer.tar"]}]
    files = {config_name: blob, f"{layer_digest}/layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    return _tar(files)


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
