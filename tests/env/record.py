"""What the kernel tells of a pod, written down: for unit tests of a version of cgroups that the machine lacks.

A recording is JSON: `files` holds path to content, `pids` the first process of `sandbox` and of `container`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

VARIABLE = "CRISHIM_RECORD"
"""Environment variable with the file to write; tests that can record look at it."""

DUMP = """
import json, os, sys
found = {}
def take(path):
    try:
        text = open(path, "rb").read().decode("latin-1")
        if path.endswith("mountinfo"):  # what is said of cgroups and of a container's root, and not of the machine
            text = "".join(line for line in text.splitlines(True) if " - cgroup" in line or " / / " in line)
        found[path] = text
    except OSError:
        pass
pids, folders = sys.argv[1].split(","), sys.argv[2:]
for pid in pids:
    for name in ("cgroup", "mountinfo", "net/dev", "limits"):
        take(f"/proc/{pid}/{name}")
take("/proc/self/mountinfo")
for top in folders:
    for folder, _, files in os.walk(top):
        for name in files:
            take(f"{folder}/{name}")
print(json.dumps(found))
"""
"""A program for the machine that is recorded: pids separated by commas, then folders of cgroups."""


def write_recording(
    file: str, run: Callable[[str], str], pids: Mapping[str, int], ids: Mapping[str, str], folders: list[str]
) -> None:
    """Record. `run` carries out a shell's command line there; DUMP must lie in its /tmp/dump.py."""
    words = ",".join(str(pid) for pid in pids.values())
    files = json.loads(run(f"python3 /tmp/dump.py {words} {' '.join(folders)}"))
    made = {"kernel": ".".join(run("uname -r").split(".")[:2]), "pids": pids, **ids, "files": files}
    Path(file).write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
