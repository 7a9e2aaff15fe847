"""Statistics on cgroup version 2 with the systemd driver, against the kernel's own files.

With CRISHIM_RECORD=FILE it also writes what those files hold to FILE, for the unit tests (tests/data/README.md).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env import record
from tests.vm.guest import wait_for
from tests.vm.node import Node
from tests.vm.test_cgroups import MIB, SLICE, cgroup_of

ROOT = "/sys/fs/cgroup"
TRIES = 20


def table(text: str) -> dict[str, int]:
    """Lines of a key and a number."""
    return {key: int(value) for key, value in (line.split() for line in text.splitlines())}


def test_figures_are_the_kernels(node: Node) -> None:
    asked = pb.LinuxContainerResources(memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=80 * MIB)
    script = "dd if=/dev/zero of=/written bs=1M count=8 && touch /done && exec sleep 100000"
    with node.pod(linux=pb.LinuxPodSandboxConfig(cgroup_parent=SLICE)) as pod:
        container = pod.start(script, resources=asked)
        inside = f"/proc/{node.pid(container)}/root/done"
        wait_for(lambda: node.guest.run(f"test -e {inside} && echo yes || true"))
        wait_for(lambda: node.guest.run(f"tr '\\0' ' ' < /proc/{node.pid(container)}/cmdline"), lambda c: "sleep" in c)
        folder = ROOT + cgroup_of(node, container)

        def read(name: str) -> str:
            return node.guest.read(f"{folder}/{name}")

        def at_rest() -> list[str]:
            return [read(f"memory.{name}") for name in ("stat", "current", "swap.current")]

        # The kernel gives a page back when it pleases: what counts is a moment in which it did not.
        for _ in range(TRIES):
            seen, before = at_rest(), table(read("cpu.stat"))
            stats = node.call("ContainerStats", container_id=container).stats
            after = table(read("cpu.stat"))
            assert before["usage_usec"] <= stats.cpu.usage_core_nano_seconds.value / 1000 <= after["usage_usec"]
            if at_rest() == seen:
                break
        else:
            pytest.fail(f"the container's memory changed in each of {TRIES} moments")

        memory, usage, swap = table(seen[0]), int(seen[1]), int(seen[2])
        assert stats.memory.usage_bytes.value == usage
        assert stats.memory.working_set_bytes.value == usage - memory["inactive_file"]
        assert stats.memory.available_bytes.value == 64 * MIB - stats.memory.working_set_bytes.value
        assert stats.memory.rss_bytes.value == memory["anon"]
        assert stats.memory.major_page_faults.value == memory["pgmajfault"]
        assert stats.memory.page_faults.value == memory["pgfault"] - memory["pgmajfault"]
        assert stats.swap.swap_usage_bytes.value == swap
        assert stats.swap.swap_available_bytes.value == 16 * MIB
        assert 8 * MIB <= stats.writable_layer.used_bytes.value < 9 * MIB

        told = node.call("PodSandboxStats", pod_sandbox_id=pod.id).stats.linux
        assert told.process.process_count.value == 2
        assert told.network.default_interface.name == "eth0"
        assert told.memory.usage_bytes.value >= usage
        pressure = Path(folder, "cpu.pressure")
        assert stats.cpu.HasField("psi") == bool(node.guest.run(f"cat {pressure} 2>/dev/null || true"))
        if file := os.environ.get(record.VARIABLE):
            node.guest.write("/tmp/dump.py", record.DUMP)
            ids = {"sandbox": pod.id, "container": container}
            pids = {name: node.pid(made) for name, made in ids.items()}
            record.write_recording(file, node.guest.run, pids, ids, [ROOT + SLICE])
