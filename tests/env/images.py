"""Images made on the spot, without a registry: the same input gives the same bytes and so the same image id.

An :class:`Image` is a configuration and layers; it can be loaded into an engine (``docker load`` format, which engines
of every version and both image stores read) or pushed to a registry (``registry``).
Rules: opencontainers/image-spec config.md and layer.md; the archive's manifest.json as ``docker save`` writes it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tests.env.cache import unpacked
from tests.env.http_api import EngineApi

BUSYBOX_REF = "crishim.test/busybox:1"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def sha256(data: bytes) -> str:
    """``sha256:`` and the hexadecimal digest."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class File:
    """An entry of a layer; ``kind`` is one of tarfile's types."""

    path: str
    """Without a leading slash."""
    data: bytes = b""
    mode: int = 0o644
    kind: bytes = tarfile.REGTYPE
    link: str = ""
    uid: int = 0
    gid: int = 0


def folder(path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> File:
    """A folder's entry."""
    return File(path, mode=mode, kind=tarfile.DIRTYPE, uid=uid, gid=gid)


def symlink(path: str, target: str) -> File:
    """A symbolic link's entry."""
    return File(path, mode=0o777, kind=tarfile.SYMTYPE, link=target)


def make_tar(files: Sequence[File]) -> bytes:
    """An uncompressed tar of the files in the given order, all times 0."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in files:
            entry = tarfile.TarInfo(file.path)
            entry.type, entry.mode, entry.linkname = file.kind, file.mode, file.link
            entry.uid, entry.gid, entry.size = file.uid, file.gid, len(file.data)
            archive.addfile(entry, io.BytesIO(file.data))
    return buffer.getvalue()


@dataclass(frozen=True)
class Image:
    """An image: ``config`` is the image-spec's ``config`` object (Cmd, Env, User, ...), ``layers`` are tars."""

    config: Mapping[str, Any]
    layers: tuple[bytes, ...]

    @cached_property
    def config_bytes(self) -> bytes:
        """The image-spec configuration document."""
        document = {
            "architecture": _MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": dict(self.config),
            "rootfs": {"type": "layers", "diff_ids": [sha256(layer) for layer in self.layers]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "crishim tests"} for _ in self.layers],
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    @property
    def id(self) -> str:
        """The image id in an engine with the classic image store: the configuration's digest."""
        return sha256(self.config_bytes)

    def archive(self, *refs: str) -> bytes:
        """A tar for ``docker load`` that tags the image with ``refs``."""
        config_name = f"{self.id.removeprefix('sha256:')}.json"
        names = [f"{sha256(layer).removeprefix('sha256:')}/layer.tar" for layer in self.layers]
        manifest = [{"Config": config_name, "RepoTags": list(refs) or None, "Layers": names}]
        files = {config_name: self.config_bytes, "manifest.json": json.dumps(manifest).encode()}
        files |= dict(zip(names, self.layers, strict=True))
        return make_tar([File(name, data) for name, data in files.items()])

    def load(self, api: EngineApi, *refs: str) -> str:
        """Load it into an engine under ``refs``; returns the engine's id of it.  Raises EngineApiError."""
        api.call("POST", "/images/load", {"quiet": "1"}, body=self.archive(*refs))
        return str(api.call("GET", f"/images/{refs[0] if refs else self.id}/json")["Id"])

    def with_config(self, **changes: Any) -> Image:
        """The same layers with other configuration keys, such as ``User="1000"`` or ``Volumes={"/data": {}}``."""
        return Image({**self.config, **changes}, self.layers)

    def with_files(self, *files: File) -> Image:
        """The image with one more layer."""
        return Image(self.config, (*self.layers, make_tar(files)))


def make_image(config: Mapping[str, Any], *layers: Sequence[File]) -> Image:
    """An image of files: one layer for each sequence of them."""
    return Image(config, tuple(make_tar(files) for files in layers))


# ---------------------------------------------------------------- busybox


def libraries(program: Path) -> list[File]:
    """What the dynamic loader opens for a program of this system, the loader included, and the folders of it all.

    Raises RuntimeError when this system lacks one of its libraries.
    """
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    if missing := re.findall(r"(\S+) => not found", listed):
        raise RuntimeError(f"{program} needs {' '.join(missing)}, which is not on this system")
    paths = sorted(set(re.findall(r"(/\S+) \(0x", listed)))
    folders = sorted({part for path in paths for part in _parents(path)})
    return [*map(folder, folders), *(File(path[1:], Path(path).read_bytes(), 0o755) for path in paths)]


_ETC = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "www-data:x:33:33:www-data:/var/www:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n",
}


@cache
def busybox() -> Image:
    """A small system of Debian's (dynamic) busybox: ``sh``, ``sleep``, ``nc``, ``httpd`` and its other applets.

    Not of busybox-static: its shell runs applets without an exec, so that masked paths seem not to work.
    Raises RuntimeError when the package is not there.
    """
    root = unpacked("busybox")
    program = next(path for path in (root / "usr/bin/busybox", root / "bin/busybox") if path.exists())
    files = [folder(name) for name in ("bin", "etc", "home", "root", "sbin", "usr", "usr/bin", "usr/sbin", "var")]
    files += [folder("tmp", 0o1777), folder("var/tmp", 0o1777), folder("var/www", uid=33, gid=33)]
    files.append(File("bin/busybox", program.read_bytes(), 0o755))
    files += libraries(program)
    applets = subprocess.run([program, "--list-full"], capture_output=True, text=True, check=True).stdout.split()
    files += [symlink(name, "/bin/busybox") for name in sorted(applets) if name != "bin/busybox"]
    files += [File(name, text.encode()) for name, text in _ETC.items()]
    return make_image({"Cmd": ["sh"], "Env": [PATH]}, _once(files))


def _parents(path: str) -> list[str]:
    parts = os.path.dirname(path).strip("/").split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _once(files: Sequence[File]) -> list[File]:
    """The first entry of each path."""
    seen: dict[str, File] = {}
    for file in files:
        seen.setdefault(file.path, file)
    return list(seen.values())
