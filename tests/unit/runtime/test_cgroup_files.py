"""Limits that are files of a container's cgroup and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crishim.engine.values import EngineContainer
from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import HugepageLimit, LinuxContainerResources
from crishim.runtime import cgroup_files

LIMITS = LinuxContainerResources(
    unified={"memory.high": "5"},
    hugepage_limits=(HugepageLimit(page_size="2MB", limit=4), HugepageLimit(page_size="1GB")),
)
LIVES = "c" * 64


def of_process(folder: Path, cgroups: str) -> Path:
    (folder / "42").mkdir(parents=True)
    (folder / "42" / "cgroup").write_text(cgroups)
    return folder


@pytest.mark.parametrize(
    ("version", "cgroups", "places"),
    [
        (
            2,
            f"0::/pod.slice/docker-{LIVES}.scope/own/below\n",
            [f"pod.slice/docker-{LIVES}.scope/hugetlb.2MB.max", f"pod.slice/docker-{LIVES}.scope/memory.high"],
        ),
        (
            1,
            f"5:memory:/docker/{LIVES}\n4:hugetlb,misc:/docker/{LIVES}\n0::/docker/{LIVES}\n",
            [f"hugetlb/docker/{LIVES}/hugetlb.2MB.limit_in_bytes", f"docker/{LIVES}/memory.high"],
        ),
        (2, "0::/some/stranger\n", []),
    ],
)
def test_where_they_are(
    tmp_path: Path, make_live: Callable[..., EngineContainer], version: int, cgroups: str, places: list[str]
) -> None:
    proc = of_process(tmp_path / "proc", cgroups)
    found = cgroup_files.wanted(make_live(LIVES), LIMITS, version, proc=proc, root=tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in found] == places
    assert [content for content, _ in found.values()] == ["4", "5"][: len(places)]
    assert cgroup_files.wanted(make_live(LIVES, pid=43), LIMITS, version, proc=proc, root=tmp_path) == {}


def test_written_and_written_back(tmp_path: Path) -> None:
    (tmp_path / "memory.high").write_text("max\n")
    files = {tmp_path / "memory.high": ("77", "linux.unified[memory.high]")}
    before = cgroup_files.read(files)
    cgroup_files.write(files)
    assert (tmp_path / "memory.high").read_text().startswith("77")
    cgroup_files.write(before)
    assert (tmp_path / "memory.high").read_text().startswith("max")


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    files = {tmp_path / "memory.none": ("77", "linux.unified[memory.none]")}
    for call in (cgroup_files.read, cgroup_files.write):
        with pytest.raises(UnsupportedField) as caught:
            call(files)
        assert caught.value.field == "linux.unified[memory.none]"
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_the_kernel_does_not_take() -> None:
    """Of the kernel's own files one that any process has."""
    with pytest.raises(InvalidArgument) as caught:
        cgroup_files.write({Path("/proc/self/oom_score_adj"): ("nonsense", "linux.unified[x]")})
    assert caught.value.field == "linux.unified[x]"
