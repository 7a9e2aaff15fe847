"""What the specification lets be a name (CNI 1.1.0, section 1 and section 2, "Parameters")."""

from __future__ import annotations

import re
from typing import TypeGuard

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*\Z")
_IFNAME = re.compile(r"[^\s/:]{1,15}\Z")


def is_network_name(text: object) -> TypeGuard[str]:
    """Say whether `text` can be the name of a network."""
    return isinstance(text, str) and _PLAIN.match(text) is not None


def is_container_id(text: object) -> TypeGuard[str]:
    """Say whether `text` can be a container's id."""
    return isinstance(text, str) and _PLAIN.match(text) is not None


def is_interface_name(text: object) -> TypeGuard[str]:
    """Say whether `text` can be an interface's name, to CNI and to Linux (at most 15 bytes)."""
    if not isinstance(text, str) or not _IFNAME.match(text) or text in (".", "..") or "\0" in text:
        return False
    return len(text.encode(errors="replace")) <= 15
