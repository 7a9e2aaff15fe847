"""Small pure pieces: resolv.conf, host, log links, who a process is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import DNSConfig
from crishim.runtime.container_update import set_oom_score
from crishim.runtime.container_user import read_user
from crishim.runtime.host import Host, detect, hugepage_sizes
from crishim.runtime.objects import ContainerUser
from crishim.runtime.resolv_conf import make_resolv_conf

# --- resolv.conf


@pytest.mark.parametrize(
    ("dns", "text"),
    [
        (None, ""),
        (DNSConfig(), ""),
        (DNSConfig(servers=("10.0.0.10", "fd00::a")), "nameserver 10.0.0.10\nnameserver fd00::a\n"),
        (DNSConfig(searches=("a.b", "c")), "search a.b c\n"),
        (DNSConfig(options=("ndots:5", "edns0")), "options ndots:5 edns0\n"),
        (DNSConfig(servers=("1.1.1.1",), searches=("a",), options=("o",)), "nameserver 1.1.1.1\nsearch a\noptions o\n"),
    ],
)
def test_resolv_conf(dns: DNSConfig | None, text: str) -> None:
    assert make_resolv_conf(dns) == text


@pytest.mark.parametrize(
    ("dns", "field"),
    [
        (DNSConfig(servers=("1.1.1.1", "")), "config.dns_config.servers[1]"),
        (DNSConfig(servers=("1.1.1.1\nnameserver 2.2.2.2",)), "config.dns_config.servers[0]"),
        (DNSConfig(searches=("a b",)), "config.dns_config.searches[0]"),
        (DNSConfig(options=("\t",)), "config.dns_config.options[0]"),
    ],
)
def test_no_line_can_be_smuggled_into_resolv_conf(dns: DNSConfig, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make_resolv_conf(dns)
    assert caught.value.field == field


# --- host


def make_process(proc: Path, pid: str, *, capabilities: int, score: int) -> None:
    (proc / pid).mkdir(parents=True)
    (proc / pid / "status").write_text(f"Name:\tx\nCapEff:\t{capabilities:016x}\n")
    (proc / pid / "oom_score_adj").write_text(f"{score}\n")


@pytest.mark.parametrize(
    ("capabilities", "score", "floor"),
    [(1 << 24, -500, -1000), ((1 << 24) - 1, 0, 0), ((1 << 24) - 1, -500, -500), (1 << 25, 100, 100)],
)
def test_the_floor_of_oom_scores(tmp_path: Path, capabilities: int, score: int, floor: int) -> None:
    make_process(tmp_path, "7", capabilities=capabilities, score=score)
    make_process(tmp_path, "self", capabilities=1 << 24, score=0)
    assert detect(7, tmp_path).oom_floor == floor
    assert detect(7, tmp_path).process == "7"


@pytest.mark.parametrize("pid", [0, 99])
def test_without_the_engines_process_ours_stands_for_it(tmp_path: Path, pid: int) -> None:
    make_process(tmp_path, "self", capabilities=0, score=-7)
    assert detect(pid, tmp_path) == Host(oom_floor=-7)


@pytest.mark.parametrize(
    ("floor", "wanted", "given"),
    [(-1000, -998, -998), (0, -998, 0), (-500, -998, -500), (-500, 300, 300), (0, 2000, 1000)],
)
def test_scores_are_clamped_to_what_the_host_allows(floor: int, wanted: int, given: int) -> None:
    host = Host(oom_floor=floor)
    assert host.clamp_oom_score(wanted) == given
    assert bool(host.remark) == (floor != -1000)


# --- processes


def test_who_a_process_is(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    status = tmp_path / "5" / "status"
    status.write_text("Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10\n")
    for name in ("uid_map", "gid_map"):
        (tmp_path / "5" / name).write_text("         0          0 4294967295\n")
    assert read_user(5, tmp_path) == ContainerUser(uid=2, gid=6, groups=(9, 10))
    (tmp_path / "5" / "uid_map").write_text("0 2 10\n")
    (tmp_path / "5" / "gid_map").write_text("0 6 1\n50 10 5\n")
    assert read_user(5, tmp_path) == ContainerUser(uid=0, gid=0, groups=(9, 50)), "as it is called inside"
    status.write_text("Name:\tzombie\n")
    assert read_user(5, tmp_path) is None
    assert read_user(6, tmp_path) is None
    assert read_user(os.getpid()) == ContainerUser(uid=os.geteuid(), gid=os.getegid(), groups=tuple(os.getgroups()))


def test_the_oom_score_of_a_process_and_its_descendants(tmp_path: Path) -> None:
    def process(pid: int, *threads: list[int]) -> None:
        for number, children in enumerate(threads):
            (tmp_path / str(pid) / "task" / str(number)).mkdir(parents=True)
            (tmp_path / str(pid) / "task" / str(number) / "children").write_text(" ".join(map(str, children)))
        (tmp_path / str(pid) / "oom_score_adj").write_text("0")

    process(1, [2], [3, 99])  # 99 has ended meanwhile
    process(2, [4])
    process(3, [])
    process(4, [])
    process(5, [])
    set_oom_score(1, 77, tmp_path)
    scores = [(tmp_path / str(pid) / "oom_score_adj").read_text() for pid in range(1, 6)]
    assert scores == ["77", "77", "77", "77", "0"]


def test_an_oom_score_that_the_kernel_refuses(tmp_path: Path) -> None:
    (tmp_path / "1" / "oom_score_adj").mkdir(parents=True)  # writing it fails
    with pytest.raises(UnsupportedField, match=r"linux\.oom_score_adj: 5: "):
        set_oom_score(1, 5, tmp_path)


# --- huge pages


def test_huge_pages_that_cgroups_can_limit(tmp_path: Path) -> None:
    assert hugepage_sizes(tmp_path) == frozenset(), "a kernel without"
    for size in (64, 2048, 1048576):
        (tmp_path / "kernel" / "mm" / "hugepages" / f"hugepages-{size}kB").mkdir(parents=True)
    cgroups = tmp_path / "fs" / "cgroup"
    cgroups.mkdir(parents=True)
    assert hugepage_sizes(tmp_path) == frozenset()
    sizes = {"64KB", "2MB", "1GB"}
    (cgroups / "hugetlb").mkdir()
    assert hugepage_sizes(tmp_path) == sizes, "version 1"
    (cgroups / "cgroup.controllers").write_text("cpu memory\n")
    assert hugepage_sizes(tmp_path) == frozenset()
    (cgroups / "cgroup.controllers").write_text("cpu hugetlb memory\n")
    assert hugepage_sizes(tmp_path) == sizes
