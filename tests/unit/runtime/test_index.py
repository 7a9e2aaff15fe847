"""The index: found by id, told of changes, never half changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from crishim.errors import AmbiguousId, ContainerNotFound, SandboxNotFound
from crishim.runtime.index import Change, Index
from crishim.runtime.objects import Container, Sandbox

MakeSandbox = Callable[..., Sandbox]
MakeContainer = Callable[..., Container]


@pytest.fixture
def index(make_sandbox: MakeSandbox, make_container: MakeContainer) -> Index:
    index = Index()
    for sandbox_id in ("aa11", "aa22", "bb33"):
        index.put_sandbox(make_sandbox(sandbox_id))
    for container_id, sandbox_id in (("aa11c", "aa11"), ("cc22", "aa11"), ("cc33", "bb33")):
        index.put_container(make_container(container_id, sandbox_id=sandbox_id))
    return index


@pytest.mark.parametrize(
    ("text", "found"), [("aa11", "aa11"), ("aa1", "aa11"), ("b", "bb33"), ("cc22", None), ("x", None), ("aa111", None)]
)
def test_by_id_or_unique_prefix_never_across_kinds(index: Index, text: str, found: str | None) -> None:
    sandbox = index.find_sandbox(text)
    assert (sandbox and sandbox.id) == found


def test_ambiguous_and_missing(index: Index) -> None:
    with pytest.raises(AmbiguousId):
        index.need_sandbox("aa")
    with pytest.raises(AmbiguousId):
        index.need_container("cc")
    for text in ("", "x"):
        with pytest.raises(SandboxNotFound):
            index.need_sandbox(text)
        with pytest.raises(ContainerNotFound):
            index.need_container(text)


def test_a_full_id_wins_over_a_prefix(index: Index, make_sandbox: MakeSandbox) -> None:
    index.put_sandbox(make_sandbox("aa1"))
    assert index.need_sandbox("aa1").id == "aa1"


def test_containers_go_with_their_sandbox(index: Index) -> None:
    assert [c.id for c in index.containers_of("aa11")] == ["aa11c", "cc22"]
    index.drop_container("aa11c")
    index.drop_container("aa11c")
    assert [c.id for c in index.containers_of("aa11")] == ["cc22"]
    index.drop_sandbox("aa11")
    index.drop_sandbox("aa11")
    assert [c.id for c in index.containers()] == ["cc33"]
    assert index.containers_of("aa11") == []
    assert repr(index) == "<Index 2 sandboxes, 1 containers>"


def test_each_change_is_told_once_and_revisions_grow(index: Index, make_sandbox: MakeSandbox) -> None:
    changes: list[Change] = []
    unsubscribe = index.subscribe(changes.append)
    sandbox = index.need_sandbox("aa11")
    assert index.put_sandbox(replace(sandbox, revision=0)) is sandbox  # nothing changed
    after = index.put_sandbox(replace(sandbox, live=None))
    assert after.revision > sandbox.revision
    index.drop_container("cc33")
    unsubscribe()
    index.drop_sandbox("aa11")
    assert [(c.kind, c.before is not None, c.after is not None) for c in changes] == [
        ("sandbox", True, True),
        ("container", True, False),
    ]
    revisions = [s.revision for s in index.sandboxes()] + [c.revision for c in index.containers()]
    assert len(set(revisions)) == len(revisions)
