"""Figures read out of recorded trees are those that the recorded files hold."""

from __future__ import annotations

import pytest

from crishim.stats.layer import find_layer
from crishim.stats.values import Usage, Vanished
from tests.unit.stats.conftest import NOW, Tree

MIB = 1 << 20


def table(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in text.splitlines())}


def usage(tree: Tree, which: str) -> Usage:
    kernel = tree.kernel()
    name = "sandbox" if which == "sandbox" else "container"
    place = kernel.place(getattr(tree, name), tree.pids[name])
    return kernel.usage(place.above if which == "pod" else place)


@pytest.mark.parametrize("which", ["container", "sandbox", "pod"])
def test_version_1(v1: Tree, which: str) -> None:
    read = usage(v1, which)
    stat = table(v1.of(which, "memory.stat"))
    memory = int(v1.of(which, "memory.usage_in_bytes"))
    assert read.time == NOW
    assert read.cpu == int(v1.of(which, "cpuacct.usage"))
    assert read.memory is not None
    assert read.memory.usage == memory
    assert read.memory.working_set == memory - stat["total_inactive_file"]
    assert read.memory.rss == stat["total_rss"]
    assert read.memory.minor_page_faults == stat["total_pgfault"] - stat["total_pgmajfault"]
    assert read.memory.swap_usage == max(int(v1.of(which, "memory.memsw.usage_in_bytes")) - memory, 0)
    assert read.memory.limit == (64 * MIB if which == "container" else None)
    # Hybrid: the unified hierarchy beside it tells of pressure.
    assert read.cpu_pressure is not None
    assert read.io_pressure is not None


@pytest.mark.parametrize("which", ["container", "sandbox", "pod"])
def test_version_2(v2: Tree, which: str) -> None:
    read = usage(v2, which)
    stat = table(v2.of(which, "memory.stat"))
    memory = int(v2.of(which, "memory.current"))
    assert read.cpu == table(v2.of(which, "cpu.stat"))["usage_usec"] * 1000
    assert read.memory is not None
    assert read.memory.usage == memory
    assert read.memory.working_set == memory - stat["inactive_file"]
    assert read.memory.rss == stat["anon"]
    assert read.memory.minor_page_faults == stat["pgfault"] - stat["pgmajfault"]
    assert read.memory.major_page_faults == stat["pgmajfault"]
    assert read.memory.swap_usage == int(v2.of(which, "memory.swap.current"))
    assert read.memory.swap_limit == (16 * MIB if which == "container" else None)
    assert read.memory.limit == (64 * MIB if which == "container" else None)
    assert (read.cpu_pressure is not None) == v2.has(which, "cpu.pressure")


def test_what_was_recorded_is_worth_reading(tree: Tree) -> None:
    """Zeros would prove nothing."""
    memory = usage(tree, "container").memory
    assert memory is not None
    assert memory.inactive_file >= 8 * MIB
    assert memory.rss > 0
    assert memory.minor_page_faults > 100
    assert memory.available == 64 * MIB - memory.working_set


def test_detail(tree: Tree) -> None:
    kernel = tree.kernel()
    detail = kernel.detail(kernel.place(tree.container, tree.pids["container"]))
    assert (detail.threads, detail.oom_kills, detail.memory_failures, detail.throttled_periods) == (1, 0, 0, 0)
    assert detail.memory_max_usage is not None
    assert detail.memory_max_usage >= 8 * MIB
    assert detail.cpu_user is not None
    assert detail.cpu_system is not None
    assert detail.cpu_user + detail.cpu_system > 0
    assert detail.memory_reservation == 0
    assert detail.memory_kernel is not None


def test_the_network_has_its_default(tree: Tree) -> None:
    network = tree.kernel().network(tree.sandbox, tree.pids["sandbox"])
    assert network is not None
    assert network.default.name == "eth0"
    assert network.others == ()


def test_the_network_is_that_of_the_process_it_was_found_by(tree: Tree) -> None:
    """Its file is kept open, and a pid that is a stranger's by then changes nothing; but it must not be so at first."""
    kernel, pid = tree.kernel(), tree.pids["sandbox"]
    before = kernel.network(tree.sandbox, pid)
    assert before is not None
    cgroup, dev = tree.path(f"/proc/{pid}/cgroup"), tree.path(f"/proc/{pid}/net/dev")
    text = cgroup.read_bytes()
    cgroup.write_text("0::/somebody/else\n")
    dev.rename(dev.with_name("was"))
    dev.write_text("head\nhead\nether9: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n")
    assert kernel.network(tree.sandbox, pid) == before
    kernel.forget(tree.sandbox)
    with pytest.raises(Vanished):
        kernel.network(tree.sandbox, pid)
    cgroup.write_bytes(text)
    kernel.place(tree.sandbox, pid)
    cgroup.write_text("0::/somebody/else\n")
    with pytest.raises(Vanished):
        kernel.network(tree.sandbox, pid)
    cgroup.write_bytes(text)
    dev.with_name("was").rename(dev)
    assert kernel.network(tree.sandbox, pid) == before, "nothing of the stranger's is kept"


def test_processes_are_counted_below_too(tree: Tree) -> None:
    kernel = tree.kernel()
    place = kernel.place(tree.container, tree.pids["container"])
    assert kernel.count(place) == 1
    assert kernel.count(place.above) == 2


def test_the_writable_layer_is_found_by_the_root_mount(tree: Tree) -> None:
    folder = find_layer(tree.proc, tree.pids["container"], "")
    assert folder is not None
    assert folder.endswith("/diff")


def test_the_pods_cgroup_is_the_one_above(tree: Tree) -> None:
    place = tree.kernel().place(tree.container, tree.pids["container"])
    assert tree.container in place.path
    assert "pod" in place.above.path.rpartition("/")[2]
    assert tree.container not in place.above.path


def test_a_pid_that_is_a_strangers_now(tree: Tree) -> None:
    kernel = tree.kernel()
    with pytest.raises(Vanished):
        kernel.place(tree.container, tree.pids["sandbox"])
    with pytest.raises(Vanished):
        kernel.network(tree.container, tree.pids["sandbox"])


def test_a_process_that_has_ended(tree: Tree) -> None:
    kernel = tree.kernel()
    with pytest.raises(Vanished):
        kernel.place(tree.container, 4_000_000)
    with pytest.raises(Vanished):
        kernel.place(tree.container, 0)


def test_a_cgroup_that_has_gone_meanwhile(tree: Tree) -> None:
    kernel = tree.kernel()
    place = kernel.place(tree.container, tree.pids["container"])
    for path in tree.files:
        if tree.container in path:
            tree.path(path).unlink()
    with pytest.raises(Vanished):
        kernel.usage(place)
    assert kernel.detail(place).threads is None


def test_swap_that_is_not_accounted_for(v1: Tree, v2: Tree) -> None:
    for tree, name in ((v1, "memory.memsw.usage_in_bytes"), (v2, "memory.swap.current")):
        for path in tree.files:
            if path.endswith(f"/{name}"):
                tree.path(path).unlink()
        memory = usage(tree, "container").memory
        assert memory is not None
        assert (memory.swap_usage, memory.swap_available) == (None, None)


def test_pressure_that_is_switched_off(tree: Tree) -> None:
    for path in tree.files:
        if path.endswith(".pressure"):
            tree.path(path).unlink()
    read = usage(tree, "container")
    assert (read.cpu_pressure, read.memory_pressure, read.io_pressure) == (None, None, None)
