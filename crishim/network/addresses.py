"""Addresses of a running process's network namespace, from its /proc files: no process is started, nothing is entered.

Only for pods that were attached by somebody else, or whose record was lost; of our own attachments the result tells.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

_GLOBAL_SCOPE = "00"


def read_addresses(pid: int | str, proc: Path = Path("/proc")) -> tuple[str, ...]:
    """IPv4, then IPv6 addresses with global scope, of a process or `thread-self`.

    None if the process is gone or has only a loopback.
    """
    net = proc / str(pid) / "net"
    try:
        four = _parse_fib_trie((net / "fib_trie").read_text())
        six = _parse_if_inet6((net / "if_inet6").read_text()) if (net / "if_inet6").exists() else []
    except (FileNotFoundError, ProcessLookupError):
        return ()
    return (*four, *six)


def _parse_fib_trie(text: str) -> list[str]:
    """Local host entries of the trie: a line with the address, followed by `/32 host LOCAL`."""
    found: dict[str, None] = {}
    address = ""
    for line in text.splitlines():
        word = line.strip()
        if word.startswith("|-- "):
            address = word.removeprefix("|-- ")
        elif word == "/32 host LOCAL" and not ipaddress.ip_address(address).is_loopback:
            found[address] = None
    return list(found)


def _parse_if_inet6(text: str) -> list[str]:
    found = []
    for line in text.splitlines():
        digits, _, _, scope, _, _ = line.split()
        if scope == _GLOBAL_SCOPE:
            found.append(str(ipaddress.ip_address(int(digits, 16).to_bytes(16, "big"))))
    return found
