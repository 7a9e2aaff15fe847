"""A cgroup of version 2: one folder, and a file is there when its controller is on for the folder."""

from __future__ import annotations

import os

from crishim.stats.files import Kept, table
from crishim.stats.place import Place
from crishim.stats.pressure import read_pressure
from crishim.stats.values import BlockIO, Detail, Memory, Usage

_ZERO = b"0"


def read_counts(place: Place, time: int) -> Usage:
    """Processor time and memory of the cgroup. Raises Vanished."""
    return Usage(time=time, cpu=read_cpu(place), memory=_memory(place.files, place.folders["unified"]))


def read_usage(place: Place, time: int) -> Usage:
    """The same, and pressure. Raises Vanished."""
    folder = place.folders["unified"]
    return read_counts(place, time)._replace(
        cpu_pressure=read_pressure(place.files, f"{folder}/cpu.pressure"),
        memory_pressure=read_pressure(place.files, f"{folder}/memory.pressure"),
        io_pressure=read_pressure(place.files, f"{folder}/io.pressure"),
    )


def read_cpu(place: Place) -> int | None:
    """Nanoseconds of processor time alone; cpu.stat is there without its controller, too. Raises Vanished."""
    return int(table(place.files.read(f"{place.folders['unified']}/cpu.stat"))[b"usage_usec"]) * 1000


def _memory(files: Kept, folder: str) -> Memory | None:
    usage = files.read_number(f"{folder}/memory.current")
    stat = table(files.read_if_there(f"{folder}/memory.stat") or b"")
    if usage is None or not stat:
        return None
    swap = files.read_number(f"{folder}/memory.swap.current")
    return Memory(
        usage=usage,
        inactive_file=int(stat.get(b"inactive_file", _ZERO)),
        rss=int(stat.get(b"anon", _ZERO)),
        page_faults=int(stat.get(b"pgfault", _ZERO)),
        major_page_faults=int(stat.get(b"pgmajfault", _ZERO)),
        limit=files.read_number(f"{folder}/memory.max"),
        swap_usage=swap,
        swap_limit=None if swap is None else files.read_number(f"{folder}/memory.swap.max"),
        cache=int(stat.get(b"file", _ZERO)),
        mapped_file=int(stat.get(b"file_mapped", _ZERO)),
    )


def read_detail(place: Place) -> Detail:
    """What metrics tell beyond. Nothing of it is told where the cgroup is gone."""
    files = place.files
    folder = place.folders["unified"]
    cpu = table(files.read_if_there(f"{folder}/cpu.stat") or b"")
    stat = table(files.read_if_there(f"{folder}/memory.stat") or b"")
    events = table(files.read_if_there(f"{folder}/memory.events") or b"")
    threads = files.read_number(f"{folder}/pids.current")
    return Detail(
        cpu_user=_microseconds(cpu, b"user_usec"),
        cpu_system=_microseconds(cpu, b"system_usec"),
        periods=_number(cpu, b"nr_periods"),
        throttled_periods=_number(cpu, b"nr_throttled"),
        throttled_time=_microseconds(cpu, b"throttled_usec"),
        memory_max_usage=files.read_number(f"{folder}/memory.peak"),
        memory_failures=_number(events, b"max"),
        memory_kernel=_kernel_memory(stat),
        memory_reservation=(files.read_number(f"{folder}/memory.low") or 0) if stat else None,
        oom_kills=_number(events, b"oom_kill"),
        threads=threads,
        threads_max=None if threads is None else files.read_number(f"{folder}/pids.max") or 0,
        block_io=parse_io_stat(files.read_if_there(f"{folder}/io.stat") or b""),
        huge_pages=_huge_pages(place.files, folder),
    )


def _kernel_memory(stat: dict[bytes, bytes]) -> int | None:
    """One figure since Linux 5.18; before, the sum of its larger parts."""
    if not stat:
        return None
    if b"kernel" in stat:
        return int(stat[b"kernel"])
    return sum(int(stat.get(key, _ZERO)) for key in (b"kernel_stack", b"pagetables", b"percpu", b"sock", b"slab"))


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
