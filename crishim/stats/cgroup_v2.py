"""A cgroup of version 2: one folder, and a file is there when its controller is on for the folder."""

from __future__ import annotations

import os
from typing import NamedTuple

from crishim.stats.files import Kept, table
from crishim.stats.place import Place
from crishim.stats.pressure import read_pressures
from crishim.stats.values import BlockIO, Detail, Memory, Usage

_ZERO = b"0"


def read_counts(place: Place, time: int) -> Usage:
    """Processor time and memory of the cgroup. Raises Vanished."""
    return Usage(time=time, cpu=read_cpu(place), memory=_memory(place.files, place.folders["unified"]))


def read_usage(place: Place, time: int) -> Usage:
    """The same, and pressure. Raises Vanished."""
    return Usage(*read_counts(place, time)[:3], *read_pressures(place.files, place.folders["unified"]))


def read_cpu(place: Place) -> int | None:
    """Nanoseconds of processor time alone; cpu.stat is there without its controller, too. Raises Vanished."""
    return int(place.files.understand(f"{place.folders['unified']}/cpu.stat", table)[b"usage_usec"]) * 1000


def _memory(files: Kept, folder: str) -> Memory | None:
    usage = files.read_number(f"{folder}/memory.current")
    stat = files.understand_if_there(f"{folder}/memory.stat", _parse_stat)
    if usage is None or stat is None:
        return None
    swap = files.read_number(f"{folder}/memory.swap.current")
    return Memory(
        usage=usage,
        inactive_file=stat.inactive_file,
        rss=stat.rss,
        page_faults=stat.page_faults,
        major_page_faults=stat.major_page_faults,
        limit=files.read_number(f"{folder}/memory.max"),
        swap_usage=swap,
        swap_limit=None if swap is None else files.read_number(f"{folder}/memory.swap.max"),
        cache=stat.cache,
        mapped_file=stat.mapped_file,
    )


class _Stat(NamedTuple):
    """What memory.stat tells."""

    inactive_file: int
    rss: int
    page_faults: int
    major_page_faults: int
    cache: int
    mapped_file: int
    kernel: int


def _parse_stat(text: bytes) -> _Stat | None:
    stat = table(text)
    if not stat:
        return None
    # One figure since Linux 5.18; before, the sum of its larger parts.
    kernel = (b"kernel",) if b"kernel" in stat else (b"kernel_stack", b"pagetables", b"percpu", b"sock", b"slab")
    return _Stat(
        int(stat.get(b"inactive_file", _ZERO)),
        int(stat.get(b"anon", _ZERO)),
        int(stat.get(b"pgfault", _ZERO)),
        int(stat.get(b"pgmajfault", _ZERO)),
        int(stat.get(b"file", _ZERO)),
        int(stat.get(b"file_mapped", _ZERO)),
        sum(int(stat.get(key, _ZERO)) for key in kernel),
    )


def read_detail(place: Place) -> Detail:
    """What metrics tell beyond. Nothing of it is told where the cgroup is gone."""
    files = place.files
    folder = place.folders["unified"]
    cpu = files.understand_if_there(f"{folder}/cpu.stat", table) or {}
    stat = files.understand_if_there(f"{folder}/memory.stat", _parse_stat)
    events = files.understand_if_there(f"{folder}/memory.events", table) or {}
    threads = files.read_number(f"{folder}/pids.current")
    return Detail(
        cpu_user=_microseconds(cpu, b"user_usec"),
        cpu_system=_microseconds(cpu, b"system_usec"),
        periods=_number(cpu, b"nr_periods"),
        throttled_periods=_number(cpu, b"nr_throttled"),
        throttled_time=_microseconds(cpu, b"throttled_usec"),
        memory_max_usage=files.read_number(f"{folder}/memory.peak"),
        memory_failures=_number(events, b"max"),
        memory_kernel=stat.kernel if stat else None,
        memory_reservation=(files.read_number(f"{folder}/memory.low") or 0) if stat else None,
        oom_kills=_number(events, b"oom_kill"),
        threads=threads,
        threads_max=None if threads is None else files.read_number(f"{folder}/pids.max") or 0,
        block_io=files.understand_if_there(f"{folder}/io.stat", parse_io_stat) or (),
        huge_pages=_huge_pages(place.files, folder),
    )


def _number(values: dict[bytes, bytes], key: bytes) -> int | None:
    return int(values[key]) if key in values else None


def _microseconds(values: dict[bytes, bytes], key: bytes) -> int | None:
    return int(values[key]) * 1000 if key in values else None


def parse_io_stat(text: bytes) -> tuple[BlockIO, ...]:
    """Lines such as `254:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`; a device alone did nothing yet."""
    devices = []
    for line in text.splitlines():
        device, *pairs = line.split()
        values = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
        if b"rbytes" in values:
            major, _, minor = device.partition(b":")
            figures = (int(values.get(key, _ZERO)) for key in (b"rbytes", b"wbytes", b"rios", b"wios"))
            devices.append(BlockIO(int(major), int(minor), *figures))
    return tuple(devices)


def _huge_pages(files: Kept, folder: str) -> tuple[tuple[str, int, int | None], ...]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return ()
    sizes = []
    for name in names:
        if name.startswith("hugetlb.") and name.endswith(".current") and ".rsvd." not in name:
            used = files.read_number(f"{folder}/{name}")
            if used is not None:
                sizes.append((name.split(".")[1], used, None))
    return tuple(sizes)
