"""The simulated engine's image store: names, digests, ids, and `docker save` archives.

Names are kept as Docker shows them: `docker.io/library/busybox:latest` and `busybox` are both `busybox:latest`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterable, Sequence
from typing import Any

from crishim.engine.values import EngineImage
from crishim.errors import EngineConflict, EngineError, EngineNotFound, Kind

_HEX = re.compile(r"[0-9a-f]{1,64}")
MADE_AT = 1_700_000_000 * 10**9
"""Creation time of every made-up image, in nanoseconds: images must not differ from run to run."""


def digest_of(text: str) -> str:
    """A digest that depends on nothing but this text."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def familiar(reference: str) -> str:
    """A reference as Docker shows it: no default registry, `:latest` where nothing is said, no tag beside a digest."""
    name, at, digest = reference.partition("@")
    for prefix in ("docker.io/library/", "index.docker.io/library/", "library/", "docker.io/", "index.docker.io/"):
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    last = name.rpartition("/")[2]
    if at:
        return f"{name.removesuffix(last)}{last.partition(':')[0]}@{digest}"
    return name if ":" in last else f"{name}:latest"


def made_up(reference: str) -> EngineImage:
    """The image that a registry would hold under a reference: always the same one, and found again by its digest."""
    name = familiar(reference)
    repository, at, digest = name.partition("@")
    if not at:
        repository = name.rpartition(":")[0]
        digest = digest_of(f"manifest {name}")
    identity = digest_of(f"image {digest}")
    return EngineImage(
        id=identity,
        tags=() if at else (name,),
        digests=(f"{repository}@{digest}",),
        size=1_000_000 + int(identity[7:13], 16),
        command=("sh",),
        env=("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",),
        created_at=MADE_AT,
    )


def default_images() -> tuple[EngineImage, ...]:
    """What a fresh simulated engine holds: a shell image and a pause image."""
    pause = dataclasses.replace(made_up("registry.k8s.io/pause:3.10"), entrypoint=("/pause",), command=(), user="65535")
    return (made_up("busybox:latest"), pause)


def default_files() -> dict[str, dict[str, bytes]]:
    """Files of the shell image, by image id and path; the pause image has none."""
    passwd = b"root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\napp:x:1000:1000::/:/bin/sh\n"
    group = b"root:x:0:\nwww-data:x:33:\napp:x:1000:\nextra:x:50000:app,www-data\n"
    return {default_images()[0].id: {"/etc/passwd": passwd, "/etc/group": group}}


class ImageStore:
    """Images by id, name and digest."""

    def __init__(self, images: Iterable[EngineImage]) -> None:
        self._images: dict[str, EngineImage] = {}
        self._names: dict[str, str] = {}
        for image in images:
            self.add(image)

    def __len__(self) -> int:
        return len(self._images)

    def all(self) -> Sequence[EngineImage]:
        """All images, the newest last."""
        return tuple(self._images.values())

    def add(self, image: EngineImage) -> EngineImage:
        """Store an image. Names that it takes from others leave them without; names it had before stay."""
        for tag in image.tags:
            holder = self._names.get(tag)
            if holder is not None and holder != image.id:
                self._set(dataclasses.replace(self._images[holder], tags=_without(self._images[holder].tags, tag)))
        before = self._images.get(image.id)
        if before is not None:
            image = dataclasses.replace(
                before,
                tags=tuple(dict.fromkeys(before.tags + image.tags)),
                digests=tuple(dict.fromkeys(before.digests + image.digests)),
            )
        return self._set(image)

    def _set(self, image: EngineImage) -> EngineImage:
        self._images[image.id] = image
        for name in image.tags + image.digests:
            self._names[name] = image.id
        return image

    def find(self, reference: str) -> EngineImage:
        """The image of a name, digest, id or unique prefix of one. Raises EngineNotFound."""
        if (image := self._images.get(reference) or self._images.get(f"sha256:{reference}")) is not None:
            return image
        if (holder := self._names.get(familiar(reference))) is not None:
            return self._images[holder]
        prefix = reference.removeprefix("sha256:")
        if _HEX.fullmatch(prefix):
            found = [image for image_id, image in self._images.items() if image_id.startswith(f"sha256:{prefix}")]
            if len(found) == 1:
                return found[0]
            if found:
                raise EngineError(f"ambiguous image id: {reference}", kind=Kind.INVALID_ARGUMENT)
        raise EngineNotFound(f"No such image: {reference}", image=reference)

    def remove(self, reference: str, users: Sequence[str]) -> tuple[EngineImage, list[str], bool]:
        """Remove a name, or by id an image with all its names.

        `users`: names of the containers made from the image. Returns the image as it was, the names that went, and
        whether the image itself went with them. Raises EngineNotFound; EngineConflict where the image would go but is
        in use.
        """
        image = self.find(reference)
        name = familiar(reference)
        if name in image.tags or name in image.digests:
            tags, digests = _without(image.tags, name), _without(image.digests, name)
            repository = name.partition("@")[0].rpartition(":")[0]
            if name in image.tags and not any(tag.rpartition(":")[0] == repository for tag in tags):
                # The digest was only how this name had been fetched.
                digests = tuple(digest for digest in digests if digest.partition("@")[0] != repository)
        else:
            tags, digests = (), ()
        gone = [known for known in image.tags + image.digests if known not in tags + digests]
        if not tags and not digests:
            if users:
                raise EngineConflict(f"image {reference} is in use by container {', '.join(users)}", image=image.id)
            del self._images[image.id]
        else:
            self._images[image.id] = dataclasses.replace(image, tags=tags, digests=digests)
        for known in gone:
            self._names.pop(known, None)
        return image, gone, not tags and not digests

    def load(self, archive: bytes) -> list[EngineImage]:
        """Store the images of a `docker save` archive. Raises EngineError for what is none; then nothing was stored."""
        try:
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                manifest = json.loads(_member(tar, "manifest.json"))
                images = [_image_of(_member(tar, entry["Config"]), entry, len(archive)) for entry in manifest]
        except (tarfile.TarError, KeyError, ValueError, TypeError, AttributeError, EOFError) as error:
            raise EngineError(f"invalid archive: {error}", kind=Kind.INVALID_ARGUMENT) from error
        return [self.add(image) for image in images]


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(other for other in names if other != name)


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no regular file")
    return file.read()


def _image_of(blob: bytes, entry: dict[str, Any], size: int) -> EngineImage:
    """An image from its configuration (OCI image spec, config.md) and its entry in manifest.json."""
    config = json.loads(blob).get("config") or {}
    return EngineImage(
        id="sha256:" + hashlib.sha256(blob).hexdigest(),
        tags=tuple(familiar(tag) for tag in entry.get("RepoTags") or ()),
        size=size,
        user=config.get("User", ""),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        env=tuple(config.get("Env") or ()),
        working_dir=config.get("WorkingDir", ""),
        labels=dict(config.get("Labels") or {}),
        volumes=tuple(config.get("Volumes") or ()),
        stop_signal=config.get("StopSignal", ""),
        created_at=MADE_AT,
    )
