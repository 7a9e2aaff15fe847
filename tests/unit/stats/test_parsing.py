"""Texts of the kernel, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crishim.stats.cgroup_v2 import parse_io_stat
from crishim.stats.files import number
from crishim.stats.layer import upper_folder
from crishim.stats.net_dev import make_network, parse_net_dev
from crishim.stats.places import Hierarchies, Places, read_hierarchies
from crishim.stats.pressure import parse_pressure
from crishim.stats.values import BlockIO, Memory, Stall, Usage, add

ID = "c0ffee" * 10 + "abcd"
HEAD = b"Inter-|   Receive  |  Transmit\n face |bytes packets\n"


def test_pressure_is_told_in_nanoseconds() -> None:
    text = b"some avg10=1.50 avg60=0.25 avg300=0.10 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=56\n"
    pressure = parse_pressure(text)
    assert pressure is not None
    assert pressure.some == Stall(1_234_000, 1.5, 0.25, 0.1)
    assert pressure.full == Stall(56_000, 0, 0, 0)


def test_pressure_of_old_kernels_has_no_full_for_the_processor() -> None:
    pressure = parse_pressure(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")
    assert pressure is not None
    assert pressure.full is None
    assert parse_pressure(b"") is None


def test_io_stat() -> None:
    text = (
        b"254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n7:0 \n8:16 cost.vrate=100.00 rbytes=1 wbytes=0\n"
    )
    assert parse_io_stat(text) == (BlockIO(254, 0, 4096, 8192, 1, 2), BlockIO(8, 16, 1, 0, 0, 0))


@pytest.mark.parametrize(
    ("names", "default", "others"),
    [
        (["lo", "eth0"], "eth0", []),
        (["lo", "net1", "eth0", "net2"], "eth0", ["net1", "net2"]),
        (["lo", "wlan0", "net1"], "wlan0", ["net1"]),
    ],
)
def test_the_default_interface(names: list[str], default: str, others: list[str]) -> None:
    lines = b"".join(b"%6s: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n" % name.encode() for name in names)
    network = make_network(parse_net_dev(HEAD + lines), 5)
    assert network is not None
    assert (network.default.name, [i.name for i in network.others]) == (default, others)
    counters = network.default
    assert (counters.rx_bytes, counters.rx_packets, counters.rx_errors, counters.rx_dropped) == (1, 2, 3, 4)
    assert (counters.tx_bytes, counters.tx_packets, counters.tx_errors, counters.tx_dropped) == (5, 6, 7, 8)


def test_no_network_where_there_is_a_loopback_only() -> None:
    assert make_network(parse_net_dev(HEAD + b"    lo: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n"), 5) is None


def test_numbers_and_what_is_none() -> None:
    assert [number(text) for text in (b"12\n", b"max\n", b"", None)] == [12, None, None, None]


def test_available_memory_is_never_negative() -> None:
    memory = Memory(usage=10, inactive_file=20, rss=1, page_faults=1, major_page_faults=2, limit=5)
    assert (memory.working_set, memory.minor_page_faults, memory.available) == (0, 0, 5)
    assert Memory(usage=10, inactive_file=0, rss=1, page_faults=1, major_page_faults=0, limit=5).available == 0


def test_a_sum_leaves_out_what_cannot_be_summed() -> None:
    one = Memory(usage=10, inactive_file=1, rss=2, page_faults=3, major_page_faults=1, limit=50, swap_usage=4)
    two = Memory(usage=20, inactive_file=2, rss=3, page_faults=4, major_page_faults=0)
    total = add([Usage(time=1, cpu=5, memory=one), Usage(time=2, cpu=7, memory=two), Usage(time=3)], 9)
    assert (total.time, total.cpu) == (9, 12)
    assert total.memory == Memory(usage=30, inactive_file=3, rss=5, page_faults=7, major_page_faults=1, swap_usage=4)
    assert add([], 9) == Usage(time=9)


def process(root: Path, pid: int, text: str) -> None:
    (root / str(pid)).mkdir()
    (root / str(pid) / "cgroup").write_text(text)


def mounts(root: Path, *lines: str) -> None:
    (root / "self").mkdir()
    (root / "self" / "mountinfo").write_text("".join(f"{line}\n" for line in lines))


def test_nested_cgroups_of_the_containers_own_are_not_the_container(tmp_path: Path) -> None:
    mounts(tmp_path, "1 2 0:3 / /cg rw shared:4 - cgroup2 cgroup2 rw")
    process(tmp_path, 7, f"0::/outer/kubepods/pod1/{ID}/init.scope/own\n")
    place = Places(str(tmp_path)).of(ID, 7)
    assert (place.path, place.folders) == (f"/outer/kubepods/pod1/{ID}", {"unified": f"/cg/outer/kubepods/pod1/{ID}"})


def test_a_hierarchy_of_which_a_part_is_mounted(tmp_path: Path) -> None:
    mounts(
        tmp_path,
        r"1 2 0:3 /docker/me /a\040b rw - cgroup cgroup rw,cpu,cpuacct",
        "1 2 0:4 / /m rw - cgroup x rw,memory",
    )
    process(tmp_path, 7, f"3:cpu,cpuacct:/docker/me/{ID}\n2:memory:/docker/me/{ID}\n1:name=systemd:/x/{ID}\n")
    places = Places(str(tmp_path))
    place = places.of(ID, 7)
    assert places.version == 1
    assert place.folders == {
        "cpu": f"/a b/{ID}", "cpuacct": f"/a b/{ID}", "memory": f"/m/docker/me/{ID}"
    }  # fmt: skip


def test_scopes_of_systemd_on_version_1(tmp_path: Path) -> None:
    mounts(tmp_path, "1 2 0:3 / /c rw - cgroup cgroup rw,cpuacct,cpu", "1 2 0:4 / /m rw - cgroup x rw,memory")
    scope = f"/kubepods.slice/kubepods-pod7.slice/docker-{ID}.scope"
    process(tmp_path, 7, f"3:cpu,cpuacct:{scope}\n2:memory:{scope}\n1:name=systemd:{scope}\n")
    place = Places(str(tmp_path)).of(ID, 7)
    assert (place.path, place.folders["memory"], place.folders["cpu"]) == (scope, f"/m{scope}", f"/c{scope}")
    assert place.above.path == "/kubepods.slice/kubepods-pod7.slice"


def test_what_is_remembered_and_forgotten(tmp_path: Path) -> None:
    mounts(tmp_path, "1 2 0:3 / /cg rw - cgroup2 cgroup2 rw")
    process(tmp_path, 7, f"0::/a/{ID}\n")
    places = Places(str(tmp_path))
    first = places.of(ID, 7)
    (tmp_path / "7" / "cgroup").unlink()
    assert places.of(ID, 7) is first
    process(tmp_path, 8, f"0::/b/{ID}\n")
    assert places.of(ID, 8).path == f"/b/{ID}", "another process, after a restart"
    assert len(places) == 1
    places.forget(ID)
    assert len(places) == 0


def test_hybrid_hosts_count_by_version_1() -> None:
    assert Hierarchies({"memory": [("/", "/m")], "unified": [("/", "/u")]}).version == 1
    assert Hierarchies({"unified": [("/", "/u")]}).version == 2


def test_mounts_of_other_kinds_are_none_of_ours(tmp_path: Path) -> None:
    mounts(tmp_path, "1 2 0:3 / /x rw - tmpfs tmpfs rw,memory", "1 2 0:4 / /y rw - cgroup cgroup rw,name=systemd")
    assert read_hierarchies(str(tmp_path)).mounts == {}


def test_the_upper_folder() -> None:
    line = rb"1 2 0:3 / / rw - overlay overlay rw,lowerdir=/l/A:/l/B,upperdir=/v/a\040b/diff,workdir=/v/work"
    assert upper_folder(b"1 2 0:9 / /proc rw - proc proc rw\n" + line) == "/v/a b/diff"
    assert upper_folder(b"1 2 8:1 /vfs/dir/x / rw - ext4 /dev/sda rw\n") is None
