"""Messages kept ready-made as bytes, so that a read costs neither the engine nor an encoder anything.

A message is made when it is first asked for, belongs to one revision of its object, and is dropped when the index tells
of a change. Lists are joined from their items' bytes; the lists without a filter, which a kubelet asks for every
second, are kept joined until something changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from google.protobuf.message import Message

from crishim.model import ImageFilter
from crishim.rpc import messages
from crishim.rpc.framing import field
from crishim.runtime.index import Change, Index
from crishim.runtime.objects import Container, Sandbox

if TYPE_CHECKING:
    from crishim.engine.values import EngineImage
    from crishim.images.service import Images

Object = TypeVar("Object", Sandbox, Container)

LIST_ITEMS = 1
"""Field of the items in the response of every list."""


@dataclass(slots=True)
class _Entry:
    revision: int
    item: bytes | None = None
    """The object as an item of a list, framed."""
    status: bytes | None = None
    """The object's status, bare: it appears under two field numbers."""


class _Ready(Generic[Object]):
    """Ready messages of one kind of object."""

    def __init__(
        self,
        kind: Literal["sandbox", "container"],
        index: Index,
        make_item: Callable[[Object], Message],
        make_status: Callable[[Object], Message],
    ) -> None:
        self._kind = kind
        self._make_item: Callable[[Object], Message] = make_item
        self._make_status: Callable[[Object], Message] = make_status
        self._entries: dict[str, _Entry] = {}
        self._all: bytes | None = None
        self._unsubscribe = index.subscribe(self._changed)

    def __len__(self) -> int:
        return len(self._entries)

    def close(self) -> None:
        """Follow the index no longer."""
        self._unsubscribe()

    def _changed(self, change: Change) -> None:
        if change.kind == self._kind:
            self._all = None
            if change.before is not None:
                self._entries.pop(change.before.id, None)

    def _entry(self, thing: Object) -> _Entry:
        entry = self._entries.get(thing.id)
        if entry is None or entry.revision != thing.revision:
            entry = self._entries[thing.id] = _Entry(thing.revision)
        return entry

    def items(self, things: Iterable[Object]) -> bytes:
        """A list's response that holds these objects."""
        return b"".join(self.each_item(things))

    def each_item(self, things: Iterable[Object]) -> list[bytes]:
        """The same in pieces, one per object."""
        return [self._item(thing) for thing in things]

    def all_items(self, things: Iterable[Object]) -> bytes:
        """A list's response that holds all objects of the kind, which `things` must be."""
        if self._all is None:
            self._all = self.items(things)
        return self._all

    def _item(self, thing: Object) -> bytes:
        entry = self._entry(thing)
        if entry.item is None:
            entry.item = field(LIST_ITEMS, self._make_item(thing).SerializeToString())
        return entry.item

    def status(self, thing: Object) -> bytes:
        """The object's status message, not framed."""
        entry = self._entry(thing)
        if entry.status is None:
            entry.status = self._make_status(thing).SerializeToString()
        return entry.status


class ReadySandboxes(_Ready[Sandbox]):
    """PodSandbox and PodSandboxStatus of each sandbox."""

    def __init__(self, index: Index) -> None:
        super().__init__("sandbox", index, messages.make_sandbox, messages.make_sandbox_status)


class ReadyContainers(_Ready[Container]):
    """Container and ContainerStatus of each container."""

    def __init__(self, index: Index) -> None:
        super().__init__("container", index, messages.make_container, messages.make_container_status)


class ReadyImages:
    """The response of ListImages without a filter, and that with one; each image's part of ImageStatus."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._revision = -1
        self._all = b""
        self._revision_of_each = -1
        self._each: dict[str, tuple[EngineImage, bytes]] = {}

    def items(self, wanted: ImageFilter) -> bytes:
        """The response of ListImages for a filter."""
        if wanted.image is not None and wanted.image.image:
            return self._join(wanted)
        if self._revision != self._images.index.revision:
            self._all = self._join(ImageFilter())
            self._revision = self._images.index.revision
        return self._all

    def status(self, image: EngineImage) -> bytes:
        """The image's message, not framed."""
        revision = self._images.index.revision
        if self._revision_of_each != revision:
            self._each.clear()
            self._revision_of_each = revision
        known, message = self._each.get(image.id, (None, b""))
        if known is not image:  # an engine's answer that is not in the index
            message = messages.make_image(image, pinned=self._images.pinned(image)).SerializeToString()
            self._each[image.id] = image, message
        return message

    def _join(self, wanted: ImageFilter) -> bytes:
        return b"".join(self.each_item(wanted))

    def each_item(self, wanted: ImageFilter) -> list[bytes]:
        """The same in pieces, one per image."""
        made = (messages.make_image(i, pinned=self._images.pinned(i)) for i in self._images.list(wanted))
        return [field(LIST_ITEMS, message.SerializeToString()) for message in made]
