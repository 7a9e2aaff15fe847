"""Image references as Docker reads them: `[registry/]path[:tag][@digest]`, and ids beside them.

The grammar is the one of the distribution project, with Docker's defaults: no registry means `docker.io`, one path
component there means `library/…`, neither tag nor digest means the tag `latest`. What has no `/`-separated first part
with a dot, a colon or an upper-case letter, and is not `localhost`, names no registry.

Pure: nothing is looked up here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from crishim.errors import InvalidArgument

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
PATH_LIMIT = 255
"""Characters of a repository's path. Engines before 25 count the registry, too, and refuse what is longer."""
TEXT_LIMIT = 4096
"""Characters of a whole reference: no legal one is longer, and none longer is worth matching."""
_REMEMBERED = 512
"""Texts whose meaning is kept in memory.  The longest legal one has some 500 characters."""

_REGISTRY_ALIASES = frozenset({"docker.io", "index.docker.io"})
_HOST = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_REGISTRY = rf"(?:{_HOST}(?:\.{_HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<registry>{_REGISTRY})/(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
_DIGEST_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}
_ID = re.compile(r"(?:sha256|sha384|sha512):[0-9a-f]{1,128}")
_HEX = re.compile(r"[0-9a-f]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A normalised name of an image; `str()` of it is what an engine is asked for."""

    registry: str
    """Host, with a port if one was given."""
    path: str
    tag: str = ""
    digest: str = ""
    """`sha256:…`. Where both are given the digest alone decides which image is meant, as it does for Docker."""
    names_registry: bool = field(default=False, compare=False)
    """Whether the text itself held the registry, or the default was taken."""

    @property
    def repository(self) -> str:
        """`registry/path`."""
        return f"{self.registry}/{self.path}"

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"


@dataclass(frozen=True, slots=True)
class ImageQuery:
    """What a caller may mean by one text: a name, else an id or the beginning of one."""

    text: str
    name: Reference | None
    id_prefix: str
    """With or without the algorithm in front, empty if the text can be no id."""


def parse_reference(text: str, *, field: str = "image.image") -> Reference:
    """Read and normalise a name. Raises InvalidArgument, naming `field`, for anything else, ids included."""
    if is_id(text):
        raise InvalidArgument(f"{shorten(text)} is an image id, not a name", field=field)
    if not text:
        raise InvalidArgument("an image name is needed", field=field)
    if len(text) > TEXT_LIMIT:
        raise InvalidArgument(f"{shorten(text)} is longer than any image name", field=field)
    registry, rest, named = _split_registry(text)
    if (match := _REFERENCE.fullmatch(f"{registry}/{rest}")) is None:
        raise InvalidArgument(f"{shorten(text)} is no image name{_why(registry, rest)}", field=field)
    digest = match["digest"] or ""
    if digest and not _legal_digest(digest):
        raise InvalidArgument(f"{shorten(text)} ends in no digest that is known", field=field)
    if len(match["path"]) > PATH_LIMIT:
        raise InvalidArgument(f"{shorten(text)} has a path of more than {PATH_LIMIT} characters", field=field)
    tag = match["tag"] or ("" if digest else DEFAULT_TAG)
    return Reference(registry=match["registry"], path=match["path"], tag=tag, digest=digest, names_registry=named)


@lru_cache(_REMEMBERED)
def parse_query(text: str, *, field: str = "image.image") -> ImageQuery:
    """Read a name, an id or an id's beginning. Raises InvalidArgument for what can be none of them.

    A text with a tag, a digest or a path is a name and never an id; `sha256:` and hex digits are an id and never a
    name, and so are 64 hex digits (as Docker has it). Fewer hex digits may be both, and the name is tried first.
    What was read is remembered: a kubelet asks for the same few images again and again.
    """
    if is_id(text):
        return ImageQuery(text, None, text)
    return ImageQuery(text, parse_reference(text, field=field), text if _HEX.fullmatch(text) else "")


def is_id(text: str) -> bool:
    """Whether a text can only be an id (whole, or its beginning with the algorithm in front)."""
    return bool(_ID.fullmatch(text)) or (len(text) == 64 and bool(_HEX.fullmatch(text)))


def shorten(text: str) -> str:
    """A text for a message: quoted, and cut where it is longer than people read."""
    return repr(text if len(text) <= 200 else text[:199] + "…")


def canonical_registry(server: str) -> str:
    """The registry that an address means: without scheme and path, Docker Hub's names folded into one."""
    host = server.split("://", 1)[-1].split("/", 1)[0]
    return DEFAULT_REGISTRY if host in _REGISTRY_ALIASES or host == "registry-1.docker.io" else host


def _split_registry(text: str) -> tuple[str, str, bool]:
    """Registry, the rest, and whether the text named the registry."""
    first, slash, rest = text.partition("/")
    named = bool(slash) and (first == "localhost" or "." in first or ":" in first or first != first.lower())
    if not named:
        first, rest = DEFAULT_REGISTRY, text
    elif first in _REGISTRY_ALIASES:
        first = DEFAULT_REGISTRY
    if first == DEFAULT_REGISTRY and "/" not in rest:
        rest = f"library/{rest}"
    return first, rest, named


def _legal_digest(digest: str) -> bool:
    algorithm, _, digits = digest.partition(":")
    return len(digits) == _DIGEST_DIGITS.get(algorithm) and bool(_HEX.fullmatch(digits))


def _why(registry: str, rest: str) -> str:
    """A hint for the commonest mistake."""
    path = rest.partition("@")[0].partition(":")[0]
    if path != path.lower() and _REFERENCE.fullmatch(f"{registry}/{path.lower()}"):
        return ": the path must be in lower case"
    return ""
