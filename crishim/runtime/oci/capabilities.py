"""Ambient capabilities (CRI `Capability.add_ambient_capabilities`: in all five sets; config.md, `capabilities`)."""

from __future__ import annotations

from collections.abc import Sequence

from crishim.model import Capability
from crishim.runtime.oci.parts import Config, at, texts
from crishim.runtime.oci.wish import ALL

BOUNDING = "bounding"
SETS = (BOUNDING, "effective", "inheritable", "permitted", "ambient")
_NAMES = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
    NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
    SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
    MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
KNOWN = frozenset(f"CAP_{name}" for name in _NAMES.split())
"""Linux's capabilities (capabilities(7)): none was added since 5.9."""


def full_name(name: str) -> str:
    """A capability as engine and kernel call it (`CAP_NAME`, or `ALL`): requests may leave the prefix out."""
    upper = name.upper()
    return upper if upper == ALL or upper.startswith("CAP_") else f"CAP_{upper}"


def without_dropped(added: Sequence[str], dropped: Sequence[str]) -> tuple[str, ...]:
    """What is added, each once: a capability that is dropped by the same word is only dropped (CRI `Capability`)."""
    against = {full_name(name) for name in dropped}
    return tuple(name for name in dict.fromkeys(map(full_name, added)) if name not in against)


def asked_ambient(asked: Capability | None) -> tuple[str, ...]:
    """The ambient capabilities of a request."""
    return () if asked is None else without_dropped(asked.add_ambient_capabilities, asked.drop_capabilities)


def with_ambient(process: Config, ambient: Sequence[str]) -> Config:
    """The process with these capabilities in all five sets.

    `ALL` is what the bounding set holds, in which the engine has put all that it may give.
    """
    if not ambient:
        return process

    def change(capabilities: Config) -> Config:
        wanted = list(dict.fromkeys(name for name in ambient if name != ALL))
        if ALL in ambient:
            wanted = list(dict.fromkeys((*texts(capabilities, BOUNDING), *wanted)))
        return {**capabilities, **{name: _united(texts(capabilities, name), wanted) for name in SETS}}

    return at(process, ("capabilities",), change)


def _united(held: Sequence[str], wanted: Sequence[str]) -> list[str]:
    return [*held, *(name for name in wanted if name not in held)]
