"""The images that the engine has, in memory: what ListImages and ImageStatus answer from.

Synchronous: a change is complete between two awaits. Answers of the engine may arrive late and out of order, so each
carries the moment at which it was asked for (`reading`): an answer never replaces what was asked for, or written by
ourselves, after it. A name belongs to the image of the newest answer, because a tag may move from one to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from crishim.engine.values import EngineImage
from crishim.errors import AmbiguousId, InvalidArgument
from crishim.images.reference import ImageQuery, parse_query, parse_reference, shorten


@dataclass(frozen=True, slots=True)
class _Entry:
    image: EngineImage
    revision: int
    asked: int


class ImageIndex:
    """Images by id, by normalised name with tag, and by name with digest."""

    def __init__(self) -> None:
        self.on_tag_lost: Callable[[str], None] = lambda image_id: None
        """Told the id of an image whose tag went to another: it may have lost more than that (its digests, with the
        containerd store, or itself), and is to be read anew."""
        self._images: dict[str, _Entry] = {}
        self._names: dict[str, str] = {}
        self._digits: dict[str, str] = {}
        self._dropped: dict[str, int] = {}
        self._readings: set[int] = set()
        self._clock = 0
        self.revision = 0
        """Grows with each change of any image."""

    def __len__(self) -> int:
        return len(self._images)

    def __repr__(self) -> str:
        return f"<ImageIndex {len(self._images)} images, revision {self.revision}>"

    # --- reads

    def images(self) -> tuple[EngineImage, ...]:
        """All images, those known longest first."""
        return tuple(entry.image for entry in self._images.values())

    def get(self, image_id: str) -> EngineImage | None:
        """By full id."""
        return entry.image if (entry := self._images.get(image_id)) else None

    def revision_of(self, image_id: str) -> int:
        """The revision at which an image last changed, 0 if it is not here. Never the same for two contents."""
        return entry.revision if (entry := self._images.get(image_id)) else 0

    def resolve(self, reference: str | ImageQuery) -> EngineImage | None:
        """By name and digest, then full id, then unique beginning of an id; None if nothing fits.

        `name:tag` never matches an id. Raises InvalidArgument for what is no reference, AmbiguousId if the beginning
        fits more than one id.
        """
        query = parse_query(reference) if isinstance(reference, str) else reference
        if query.name is not None and (image_id := self._names.get(str(query.name))):
            return self._images[image_id].image
        if not (prefix := query.id_prefix):
            return None
        if prefix in self._images:
            return self._images[prefix].image
        known = {i: i for i in self._images} if ":" in prefix else self._digits
        if prefix in known:
            return self._images[known[prefix]].image
        found = [image_id for digits, image_id in known.items() if digits.startswith(prefix)]
        if len(found) > 1:
            raise AmbiguousId(f"image id prefix {shorten(query.text)} fits {len(found)} images")
        return self._images[found[0]].image if found else None

    # --- changes

    @contextmanager
    def reading(self) -> Iterator[int]:
        """Open before the engine is asked; the value dates its answer for `put`, `drop` and `replace_all`."""
        asked = self._tick()
        self._readings.add(asked)
        try:
            yield asked
        finally:
            self._readings.discard(asked)
            if not self._readings:
                self._dropped.clear()  # no answer is on its way that could bring one back

    def put(self, image: EngineImage, asked: int) -> EngineImage | None:
        """Add or replace an image by an answer; returns what is here now, which is newer if the answer was late."""
        before = self._images.get(image.id)
        if self._dropped.get(image.id, 0) > asked or (before is not None and before.asked > asked):
            return before.image if before else None
        image = self._without_lost_tags(image, asked)
        # A kubelet takes size 0 for a broken answer; an image made from nothing really has no bytes.
        image = replace(image, size=1) if image.size < 1 else image
        if before is not None and before.image == image:
            self._images[image.id] = replace(before, asked=asked)
            return before.image
        self.revision += 1
        self._images[image.id] = _Entry(image, self.revision, asked)
        self._rename(image.id, before.image if before else None, image)
        return image

    def drop(self, image_id: str, asked: int | None = None) -> None:
        """Forget an image: because an answer says that it is gone, or (None) because we have removed it just now."""
        before = self._images.get(image_id)
        asked = self._tick() if asked is None else asked
        if before is not None and before.asked > asked:
            return
        if self._readings:
            self._dropped[image_id] = max(asked, self._dropped.get(image_id, 0))
        if before is not None:
            del self._images[image_id]
            self._rename(image_id, before.image, None)
            self.revision += 1

    def replace_all(self, images: Iterable[EngineImage], asked: int) -> None:
        """Make the index what a list of the engine says."""
        there = set()
        for image in images:
            there.add(image.id)
            self.put(image, asked)
        for image_id in [i for i in self._images if i not in there]:
            self.drop(image_id, asked)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _without_lost_tags(self, image: EngineImage, asked: int) -> EngineImage:
        """Settle whose tags they are: the older answer's image loses those that both claim."""
        lost = set()
        for tag, name in _tag_names(image):
            holder = self._images.get(self._names.get(name, ""))
            if holder is None or holder.image.id == image.id:
                continue
            if holder.asked > asked:
                lost.add(tag)
                continue
            left = tuple(t for t, n in _tag_names(holder.image) if n != name)
            self.revision += 1
            self._images[holder.image.id] = replace(
                holder, image=replace(holder.image, tags=left), revision=self.revision
            )
            del self._names[name]
            self.on_tag_lost(holder.image.id)
        return replace(image, tags=tuple(t for t in image.tags if t not in lost)) if lost else image

    def _rename(self, image_id: str, before: EngineImage | None, after: EngineImage | None) -> None:
        digits = image_id.partition(":")[2]
        if before is not None:
            for name in _names(before):
                if self._names.get(name) == image_id:
                    del self._names[name]
            self._digits.pop(digits, None)
        if after is not None:
            self._names.update((name, image_id) for name in _names(after))
            if digits:
                self._digits[digits] = image_id


def _tag_names(image: EngineImage) -> list[tuple[str, str]]:
    """Each tag as the engine shows it, with the normalised name."""
    return [(tag, _normalise(tag)) for tag in image.tags]


def _names(image: EngineImage) -> set[str]:
    return {_normalise(name) for name in (*image.tags, *image.digests)}


def _normalise(name: str) -> str:
    try:
        return str(parse_reference(name))
    except InvalidArgument:
        # An engine of another age may keep a name that the grammar of today refuses: found only as it is written.
        return name
