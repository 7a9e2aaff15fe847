"""The index: what resolves to what, and whose answer counts."""

from __future__ import annotations

import pytest

from crishim.engine.values import EngineImage
from crishim.errors import AmbiguousId, InvalidArgument
from crishim.images.index import ImageIndex

A, B = "sha256:" + "ab" * 32, "sha256:" + "ac" * 32
CAFE = "sha256:cafe" + "0" * 60
DIGEST = "sha256:" + "12" * 32


def image(image_id: str, *tags: str, digests: tuple[str, ...] = (), size: int = 10) -> EngineImage:
    return EngineImage(id=image_id, tags=tags, digests=digests, size=size)


def filled(*images: EngineImage) -> ImageIndex:
    index = ImageIndex()
    for one in images:
        with index.reading() as asked:
            index.put(one, asked)
    return index


@pytest.mark.parametrize(
    "reference",
    [
        *("busybox", "busybox:latest", "docker.io/library/busybox", f"busybox@{DIGEST}", f"busybox:other@{DIGEST}"),
        *(A, A[7:], "sha256:ab", "ab", "a" + "b"),
    ],
)
def test_one_image_by_all_its_references(reference):
    wanted = image(A, "busybox:latest", digests=(f"busybox@{DIGEST}",))
    assert filled(wanted, image(B, "other:1")).resolve(reference) == wanted


@pytest.mark.parametrize(
    "reference", ["busybox:ab", "ab:latest", "other", f"other@{DIGEST}", "ff", "sha256:ff", "0" * 64]
)
def test_what_fits_nothing_is_none(reference):
    assert filled(image(A, "busybox:latest", digests=(f"busybox@{DIGEST}",))).resolve(reference) is None


def test_a_name_comes_before_an_id():
    named, by_id = image(A, "cafe:latest"), image(CAFE)
    index = filled(by_id, named)
    assert index.resolve("cafe") == named
    assert index.resolve("cafe0") == by_id
    assert index.resolve("sha256:cafe") == by_id


def test_an_ambiguous_prefix_is_an_error_and_a_bad_reference_another():
    index = filled(image(A), image(B))
    with pytest.raises(AmbiguousId):
        index.resolve("a")
    with pytest.raises(AmbiguousId):
        index.resolve("sha256:a")
    with pytest.raises(InvalidArgument):
        index.resolve("Bad")


def test_a_whole_id_is_never_ambiguous():
    short = "sha256:abc"
    index = filled(image(short), image(A))
    assert index.resolve(short) == image(short)
    assert index.resolve("abc") == image(short)


def test_size_zero_is_told_as_one():
    assert filled(image(A, size=0)).get(A) == image(A, size=1)


def test_revisions_move_only_with_content():
    index = filled(image(A, "a:1"))
    first, kept = index.revision_of(A), index.get(A)
    with index.reading() as asked:
        index.put(image(A, "a:1"), asked)
    assert (index.revision_of(A), index.revision) == (first, first)
    assert index.get(A) is kept
    with index.reading() as asked:
        index.put(image(A, "a:2"), asked)
    assert index.revision_of(A) == index.revision > first
    assert index.resolve("a:1") is None
    revision = index.revision
    index.drop(A)
    assert index.revision > revision
    assert index.revision_of(A) == 0
    assert len(index) == 0


def test_a_moved_tag_belongs_to_the_newest_answer():
    index = filled(image(A, "a:1", "a:2"))
    before = index.revision_of(A)
    losers: list[str] = []
    index.on_tag_lost = losers.append
    with index.reading() as asked:
        index.put(image(B, "a:1"), asked)
    assert index.resolve("a:1") == image(B, "a:1")
    assert index.get(A) == image(A, "a:2")
    assert index.revision_of(A) > before
    assert losers == [A]
    index.drop(B)
    assert index.resolve("a:1") is None


def test_a_late_answer_does_not_take_a_tag_back():
    index = ImageIndex()
    with index.reading() as early, index.reading() as late:
        index.put(image(B, "a:1"), late)
        index.put(image(A, "a:1", "a:2"), early)
    assert index.resolve("a:1") == image(B, "a:1")
    assert index.get(A) == image(A, "a:2")


def test_a_late_answer_replaces_nothing():
    index = ImageIndex()
    with index.reading() as early, index.reading() as late:
        index.put(image(A, "new:1"), late)
        assert index.put(image(A, "old:1"), early) == image(A, "new:1")
        index.drop(A, early)
    assert index.resolve("new:1") == image(A, "new:1")


def test_a_list_asked_before_our_own_removal_brings_nothing_back():
    index = filled(image(A, "a:1"))
    with index.reading() as asked:
        index.drop(A)
        index.replace_all([image(A, "a:1")], asked)
        assert index.get(A) is None
    with index.reading() as asked:  # and later it may come back
        index.replace_all([image(A, "a:1")], asked)
    assert index.resolve("a:1") == image(A, "a:1")


def test_a_list_asked_before_a_pull_drops_nothing_of_it():
    index = ImageIndex()
    with index.reading() as listed:
        with index.reading() as asked:
            index.put(image(A, "a:1"), asked)
        index.replace_all([], listed)
    assert index.resolve("a:1") == image(A, "a:1")


def test_a_list_replaces_all_that_is_older():
    index = filled(image(A, "a:1"), image(B, "b:1"))
    with index.reading() as asked:
        index.replace_all([image(B, "b:2"), image(CAFE)], asked)
    assert index.images() == (image(B, "b:2"), image(CAFE))
    assert index.resolve("a:1") is None
    assert index.resolve("b:1") is None
    assert repr(index).startswith("<ImageIndex 2 images")


def test_a_name_that_is_no_reference_today_harms_nothing():
    index = filled(image(A, "<none>:<none>", "good:1"))
    assert index.resolve("good:1") == index.get(A)
