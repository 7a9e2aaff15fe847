"""The OCI runtime front (front.c): whether this host needs it, and building it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.env import linux
from tests.env.cache import CACHE

SOURCE = Path(__file__).with_name("front.c")
REASON = (
    "this host's root lacks CAP_SYS_RESOURCE, so runc could neither lower an oom_score_adj nor grant the capability"
)


def needed() -> bool:
    """Whether the kernel denies this root what ordinary pods ask of runc."""
    return not linux.has_capability(linux.CAP_SYS_RESOURCE)


def build(real_runtime: Path, folder: Path = CACHE / "front") -> Path:
    """The front for the runtime at ``real_runtime`` (absolute), compiled if it is not in ``folder`` yet.

    Raises RuntimeError when there is no compiler, or with the compiler's words when it fails.
    """
    key = hashlib.sha256(SOURCE.read_bytes() + os.fsencode(real_runtime)).hexdigest()[:16]
    target = folder / key / "runtime-front"
    if target.exists():
        return target
    compiler = shutil.which("gcc")
    if compiler is None:
        raise RuntimeError(f"gcc is missing, and {REASON}: run tests/env/bootstrap.sh packages")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f"draft-{os.getpid()}")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", f'-DREAL_RUNTIME="{real_runtime}"']
    made = subprocess.run([compiler, *flags, "-o", draft, SOURCE], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise RuntimeError(f"cannot compile {SOURCE.name}: {made.stderr.strip()}")
    draft.rename(target)  # at once and whole, even when two test runs build it at the same time
    return target
