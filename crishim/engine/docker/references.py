"""Names that go into an URL: what may, and how an image reference falls into its parts."""

from __future__ import annotations

import re

_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_IMAGE = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9._:/@+\[\]-]*")
_IMAGE_ID = re.compile(r"(sha256:)?[0-9a-f]{64}")


def names_container(text: str) -> bool:
    """Whether a container can have this id or name. Anything else must not become part of a path."""
    return _CONTAINER.fullmatch(text) is not None


def names_image(text: str) -> bool:
    """Whether an image can be called so; `..` as a step of the path cannot."""
    return _IMAGE.fullmatch(text) is not None and not {".", "..", ""} & set(text.split("/"))


def is_image_id(text: str) -> bool:
    """Whether this is a full image id and no name."""
    return _IMAGE_ID.fullmatch(text) is not None


def split_reference(reference: str) -> tuple[str, str, str]:
    """Name, tag and digest of `name[:tag][@digest]`; the host's port belongs to the name."""
    rest, _, digest = reference.partition("@")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        return rest, "", digest
    return name, tag, digest
