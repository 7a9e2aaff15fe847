"""The packet filter's rules of this network namespace, one line each, without counters.

nftables has those of today's iptables, too; the older iptables keeps tables of its own.  Programs that are missing are
passed over: their rules cannot have been made by them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_LEGACY = {"ip_tables_names": "iptables-legacy-save", "ip6_tables_names": "ip6tables-legacy-save"}
"""The kernel's list of the tables that are in use, and what prints them."""


def rules() -> list[str]:
    """All rules, and the chains that somebody made.  Where a program cannot list them (a kernel without them), why."""
    if shutil.which("nft"):
        found = flatten(_run("nft", "--stateless", "list", "ruleset"))
    else:
        found = [rule for save in ("iptables-nft-save", "ip6tables-nft-save") for rule in _saved(save)]
    for names, save in _LEGACY.items():
        file = Path("/proc/self/net", names)
        if file.exists() and file.read_text().strip():  # else the program would make the tables that it asks for
            found += _saved(save)
    return found


def flatten(ruleset: str) -> list[str]:
    """nft's blocks as one line for each rule and each chain that somebody made, after the blocks that it stands in.

    Without tables and the chains that the kernel calls: iptables makes those at its first use, even for a question, and
    never takes them away.
    """
    found, around = [], list[str]()
    for line in map(str.strip, ruleset.splitlines()):
        if line == "}":
            around.pop()
        elif line.endswith("{"):
            around.append(line.removesuffix("{").strip())
            if len(around) > 1:
                found.append(" ".join(around))
        elif line.startswith("type ") and " hook " in line:
            found.pop()
        elif line and not line.startswith("#"):
            found.append(" ".join([*around, line]))
    return found


def _saved(program: str) -> list[str]:
    """What a program of iptables prints: ``PROGRAM TABLE RULE``."""
    if not shutil.which(program):
        return []
    found, table = [], ""
    for line in _run(program).splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-") or (line.startswith(":") and " - " in line):  # chains without a policy are made
            found.append(f"{program} {table} {line.partition(' [')[0]}")  # a chain's counters follow
    return found


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"-{command[0]} cannot list: {' '.join(done.stderr.split())}"
