"""A cgroup of version 1: a folder per controller. Pressure is told by version 2, where that lies beside."""

from __future__ import annotations

import os
from typing import NamedTuple

from crishim.stats.files import Kept, table
from crishim.stats.place import Place
from crishim.stats.pressure import read_pressures
from crishim.stats.values import BlockIO, Detail, Memory, Usage

UNLIMITED = 1 << 62
"""The kernel writes the highest multiple of a page below 2^63 for no limit."""
_TICK = 10**9 // os.sysconf("SC_CLK_TCK")
_ZERO = b"0"


def read_counts(place: Place, time: int) -> Usage:
    """Processor time and memory of the cgroup. Raises Vanished."""
    memory = _memory(place.files, place.folders["memory"]) if "memory" in place.folders else None
    return Usage(time=time, cpu=read_cpu(place), memory=memory)


def read_usage(place: Place, time: int) -> Usage:
    """The same, and pressure. Raises Vanished."""
    counts = read_counts(place, time)
    unified = place.folders.get("unified")
    return counts if unified is None else Usage(*counts[:3], *read_pressures(place.files, unified))


def read_cpu(place: Place) -> int | None:
    """Nanoseconds of processor time alone. Raises Vanished."""
    return int(place.files.read(f"{place.folders['cpuacct']}/cpuacct.usage")) if "cpuacct" in place.folders else None


def _memory(files: Kept, folder: str) -> Memory:
    usage = int(files.read(f"{folder}/memory.usage_in_bytes"))
    stat = files.understand(f"{folder}/memory.stat", _parse_stat)
    # That of the cgroup and all above it: where there is none, the cgroup has none.
    limit = stat.limit
    if limit is not None:
        limit = _limit(files.read_number(f"{folder}/memory.limit_in_bytes"))
    both = files.read_number(f"{folder}/memory.memsw.usage_in_bytes")
    return Memory(
        usage=usage,
        inactive_file=stat.inactive_file,
        rss=stat.rss,
        page_faults=stat.page_faults,
        major_page_faults=stat.major_page_faults,
        limit=limit,
        # The two are read one after the other, so that memory may have grown meanwhile.
        swap_usage=None if both is None else max(both - usage, 0),
        swap_limit=None
        if both is None or stat.both_limit is None or limit is None
        else max(stat.both_limit - limit, 0),
        cache=stat.cache,
        mapped_file=stat.mapped_file,
    )


class _Stat(NamedTuple):
    """What memory.stat tells of a cgroup and all below it; the limits are of it and all above it."""

    limit: int | None
    both_limit: int | None
    inactive_file: int
    rss: int
    page_faults: int
    major_page_faults: int
    cache: int
    mapped_file: int


def _parse_stat(text: bytes) -> _Stat:
    stat = table(text)
    return _Stat(
        _limit(int(stat.get(b"hierarchical_memory_limit", _ZERO)) or None),
        _limit(int(stat.get(b"hierarchical_memsw_limit", _ZERO)) or None),
        int(stat.get(b"total_inactive_file", _ZERO)),
        int(stat.get(b"total_rss", _ZERO)),
        int(stat.get(b"total_pgfault", _ZERO)),
        int(stat.get(b"total_pgmajfault", _ZERO)),
        int(stat.get(b"total_cache", _ZERO)),
        int(stat.get(b"total_mapped_file", _ZERO)),
    )


def _limit(value: int | None) -> int | None:
    return None if value is None or value >= UNLIMITED else value


def read_detail(place: Place) -> Detail:
    """What metrics tell beyond. Nothing of it is told where the cgroup is gone."""
    files = place.files
    cpu, cpuacct, memory, pids = (place.folders.get(name) for name in ("cpu", "cpuacct", "memory", "pids"))
    times = (files.understand_if_there(f"{cpuacct}/cpuacct.stat", table) if cpuacct else None) or {}
    quota = (files.understand_if_there(f"{cpu}/cpu.stat", table) if cpu else None) or {}
    oom = (files.understand_if_there(f"{memory}/memory.oom_control", table) if memory else None) or {}
    reserved = files.read_number(f"{memory}/memory.soft_limit_in_bytes") if memory else None
    return Detail(
        cpu_user=int(times[b"user"]) * _TICK if b"user" in times else None,
        cpu_system=int(times[b"system"]) * _TICK if b"system" in times else None,
        periods=int(quota[b"nr_periods"]) if b"nr_periods" in quota else None,
        throttled_periods=int(quota[b"nr_throttled"]) if b"nr_throttled" in quota else None,
        throttled_time=int(quota[b"throttled_time"]) if b"throttled_time" in quota else None,
        memory_max_usage=files.read_number(f"{memory}/memory.max_usage_in_bytes") if memory else None,
        memory_failures=files.read_number(f"{memory}/memory.failcnt") if memory else None,
        memory_kernel=files.read_number(f"{memory}/memory.kmem.usage_in_bytes") if memory else None,
        memory_reservation=None if reserved is None else _limit(reserved) or 0,
        oom_kills=int(oom[b"oom_kill"]) if b"oom_kill" in oom else None,
        threads=files.read_number(f"{pids}/pids.current") if pids else None,
        threads_max=(files.read_number(f"{pids}/pids.max") or 0) if pids else None,
        block_io=_block_io(place.files, place.folders["blkio"]) if "blkio" in place.folders else (),
        huge_pages=_huge_pages(place.files, place.folders["hugetlb"]) if "hugetlb" in place.folders else (),
    )


def _block_io(files: Kept, folder: str) -> tuple[BlockIO, ...]:
    counted = files.understand_if_there(f"{folder}/blkio.throttle.io_service_bytes_recursive", _by_device)
    if not counted:
        return ()
    operations = files.understand_if_there(f"{folder}/blkio.throttle.io_serviced_recursive", _by_device) or {}
    return tuple(
        BlockIO(
            *device,
            sizes.get(b"Read", 0),
            sizes.get(b"Write", 0),
            operations.get(device, {}).get(b"Read", 0),
            operations.get(device, {}).get(b"Write", 0),
        )
        for device, sizes in counted.items()
    )


def _by_device(text: bytes) -> dict[tuple[int, int], dict[bytes, int]]:
    """Lines such as `254:0 Read 4096`; the last one, `Total 4096`, is of no device."""
    found: dict[tuple[int, int], dict[bytes, int]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3:
            major, _, minor = words[0].partition(b":")
            found.setdefault((int(major), int(minor)), {})[words[1]] = int(words[2])
    return found


def _huge_pages(files: Kept, folder: str) -> tuple[tuple[str, int, int | None], ...]:
    sizes = []
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return ()
    for name in sorted(names):
        controller, _, rest = name.partition(".")
        size, _, file = rest.partition(".")
        if controller == "hugetlb" and file == "usage_in_bytes":
            used = files.read_number(f"{folder}/{name}")
            if used is not None:
                sizes.append((size, used, files.read_number(f"{folder}/hugetlb.{size}.max_usage_in_bytes")))
    return tuple(sizes)
