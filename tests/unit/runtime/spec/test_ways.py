"""Field × engine × front: what is carried, by whom, and what is refused with which words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crishim.engine.values import EngineFacts
from crishim.errors import InvalidArgument, RROUnsupported, UnsupportedField
from crishim.model import Capability, HugepageLimit, ImageSpec, LinuxContainerResources, Mount
from crishim.runtime.host import Host
from crishim.runtime.spec.mounts import make_mounts
from crishim.runtime.spec.resources import check_resources
from crishim.runtime.spec.security import make_capabilities
from crishim.runtime.spec.ways import HINT, Beyond, Ways, make_ways

TWINS = {"runc": "crishim-runc"}
FRONTED = Host(twins=TWINS, recursing=frozenset({"runc"}), hugepage_sizes=frozenset({"2MB"}))
MIB = 1 << 20


def old(facts: EngineFacts) -> EngineFacts:
    return replace(facts, api_version=(1, 41), readonly_recursion=frozenset(), storage_driver="overlay2")


@pytest.mark.parametrize("what", Beyond)
def test_with_a_front_all_is_carried_by_the_twin(facts: EngineFacts, what: Beyond) -> None:
    ways = make_ways(old(facts), FRONTED, "runc")
    assert (ways.open(what), ways.chosen) == (True, "runc"), "nothing was asked yet"
    ways.take(what, "f")
    assert ways.chosen == "crishim-runc"


@pytest.mark.parametrize("what", Beyond)
def test_without_a_front_all_is_refused_as_ever(facts: EngineFacts, what: Beyond) -> None:
    for ways in (make_ways(old(facts), Host(), "runc"), make_ways(old(facts), FRONTED, "alt")):
        assert not ways.open(what)
        error = RROUnsupported if what is Beyond.RECURSIVE_READ_ONLY else UnsupportedField
        with pytest.raises(error) as caught:
            ways.take(what, "config.f")
        assert what.value in str(caught.value)
        assert "config.f" in str(caught.value)
        assert not ways.taken


@pytest.mark.parametrize(
    ("what", "facts_changed", "host", "words"),
    [
        (Beyond.RECURSIVE_READ_ONLY, {"kernel": "5.11.0"}, FRONTED, "Linux 5.11.0 cannot"),
        (Beyond.RECURSIVE_READ_ONLY, {}, replace(FRONTED, recursing=frozenset()), "runc does not say"),
        (Beyond.UNIFIED, {"cgroup_version": 1}, FRONTED, "cgroup version 1"),
        (Beyond.USER_NAMESPACE, {"kernel": "5.18.1"}, FRONTED, "Linux 5.18.1 cannot shift"),
        (Beyond.USER_NAMESPACE, {"storage_driver": "btrfs"}, FRONTED, "btrfs has no overlay"),
        (Beyond.HUGEPAGES, {}, replace(FRONTED, hugepage_sizes=frozenset()), "do not limit huge pages"),
    ],
)
def test_what_even_the_front_cannot(
    facts: EngineFacts, what: Beyond, facts_changed: dict[str, object], host: Host, words: str
) -> None:
    engine = replace(old(facts), **facts_changed)  # type: ignore[arg-type]
    for one in (host, replace(host, twins={})):
        with pytest.raises((UnsupportedField, RROUnsupported), match=words) as caught:
            make_ways(engine, one, "runc").take(what, "f")
        assert HINT not in str(caught.value), "a front would not help"


def test_the_engines_own_way_is_taken_first(tmp_path: Path, facts: EngineFacts) -> None:
    mount = Mount(container_path="/x", host_path=str(tmp_path), readonly=True, recursive_read_only=True)
    ways = make_ways(facts, FRONTED, "runc")
    (made,) = make_mounts([mount], facts, "f", ways)
    assert (made.recursive_readonly, ways.chosen) == (True, "runc")
    ways = make_ways(old(facts), FRONTED, "runc")
    (made,) = make_mounts([mount], old(facts), "f", ways)
    assert (made.readonly, made.recursive_readonly, ways.chosen) == (True, False, "crishim-runc")


def test_mount_options(tmp_path: Path, facts: EngineFacts) -> None:
    volume = Mount(container_path="/v", readonly=True, image=ImageSpec(image="x", image_ref="i"))
    for mount in (Mount(container_path="/x", host_path=str(tmp_path)), volume):
        ways = make_ways(facts, FRONTED, "runc")
        make_mounts([replace(mount, mount_options=("noexec", "nodev", "nosuid"))], facts, "f", ways)
        assert ways.taken
        for option in ("rw", "exec", "noatime", "bind", ""):
            with pytest.raises(InvalidArgument, match="mount_options"):
                make_mounts([replace(mount, mount_options=(option,))], facts, "f", ways)


def test_ambient_capabilities_are_added_to_the_engines_sets_too() -> None:
    def front() -> Ways:
        return Ways(runtime="runc", twin="crishim-runc")

    asked = Capability(add_capabilities=("KILL",), add_ambient_capabilities=("net_raw", "KILL", "CHOWN"))
    ways = front()
    assert make_capabilities(replace(asked, drop_capabilities=("CHOWN",)), "f", ways) == (
        ("CAP_KILL", "CAP_NET_RAW"),
        ("CAP_CHOWN",),
    )
    assert ways.chosen == "crishim-runc"
    ways, dropped = front(), replace(asked, add_capabilities=(), drop_capabilities=("NET_RAW", "KILL", "CHOWN"))
    assert make_capabilities(dropped, "f", ways)[0] == ()
    assert ways.chosen == "runc", "there is nothing left for the front to carry"
    with pytest.raises(InvalidArgument, match=r"f\.add_ambient_capabilities\[0\]"):
        make_capabilities(Capability(add_ambient_capabilities=("no name",)), "f", front())


def test_files_of_the_cgroup(facts: EngineFacts) -> None:
    def check(**asked: object) -> bool:
        ways = make_ways(facts, FRONTED, "runc")
        check_resources(LinuxContainerResources(**asked), "f", ways)  # type: ignore[arg-type]
        return ways.taken

    assert check(unified={"memory.high": "1", "hugetlb.2MB.max": "0", "cpu.weight.nice": "-1"})
    assert check(hugepage_limits=(HugepageLimit(page_size="2MB", limit=2 * MIB), HugepageLimit(page_size="1GB")))
    assert not check(hugepage_limits=(HugepageLimit(page_size="2MB"),))
    for key in ("memory", "../memory.max", "a/b.c", "cgroup.kill", "cgroup.procs", "memory.", ""):
        with pytest.raises(InvalidArgument, match=r"f\.unified\["):
            check(unified={key: "1"})
    with pytest.raises(InvalidArgument, match=r"f\.unified\["):
        check(unified={"memory.high": "1\0"})
    with pytest.raises(UnsupportedField, match="no pages of '1GB'"):
        check(hugepage_limits=(HugepageLimit(page_size="1GB", limit=1),))
