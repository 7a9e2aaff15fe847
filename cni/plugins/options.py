"""Reading a plugin's options strictly: every key is one that the plugin knows, or the configuration is refused."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from cni import jsontext
from cni.errors import Code
from cni.plugins.api import VALID_ATTACHMENTS, CallFailed

STANDARD = frozenset(
    {
        "cniVersion",
        "cniVersions",
        "name",
        "type",
        "args",
        "capabilities",
        "dns",
        "ipam",
        "prevResult",
        "runtimeConfig",
        VALID_ATTACHMENTS,
        "cni.dev/attachments",  # what 1.1.0 called it in a draft; some runtimes send both
    }
)
"""Keys that the specification gives a meaning in every plugin's configuration (CNI 1.1.0, section 1)."""


class Reader:
    """Reads members of one object, remembers which, and refuses the rest in `finish`.

    All methods raise CallFailed: code 7 (invalid configuration) with the member's position.
    """

    def __init__(self, value: object, at: str = "", known: frozenset[str] = frozenset()) -> None:
        """`at`: where in the configuration the object is ("" for the whole).  `known`: keys that others read."""
        if not isinstance(value, dict):
            raise invalid(at or "configuration", "must be an object")
        self._value: Mapping[str, Any] = value
        self._at = at
        self._known = set(known)

    def position(self, key: str) -> str:
        """Return where `key` is, for a message."""
        return f"{self._at}.{key}" if self._at else key

    def raw(self, key: str) -> Any:
        """Return the member as it is; None when absent or null."""
        self._known.add(key)
        return self._value.get(key)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise invalid(self.position(key), "must be true or false")
        return value

    def text(self, key: str, default: str = "") -> str:
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, str) or "\0" in value:
            raise invalid(self.position(key), "must be a string")
        return value

    def number(self, key: str, default: int = 0, least: int = 0, most: int = (1 << 63) - 1) -> int:
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise invalid(self.position(key), f"must be a whole number from {least} to {most}")
        return value

    def items(self, key: str) -> list[Any]:
        value = self.raw(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise invalid(self.position(key), "must be a list")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.items(key)
        if not all(isinstance(item, str) for item in value):
            raise invalid(self.position(key), "must be a list of strings")
        return tuple(value)

    def address(self, key: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        text = self.text(key)
        try:
            return ipaddress.ip_address(text) if text else None
        except ValueError:
            raise invalid(self.position(key), f"{text!r} is no address") from None

    def object(self, key: str) -> Reader:
        """Return a reader of the member, which must be an object; of an empty one when absent."""
        value = self.raw(key)
        return Reader({} if value is None else value, self.position(key))

    def finish(self) -> None:
        """Refuse by name what was not read."""
        for key, value in self._value.items():
            if key not in self._known:
                # "The error message must contain the key and value of the unsupported field." (CNI 1.1.0, "Error")
                raise CallFailed(
                    Code.UNSUPPORTED_FIELD,
                    f"{self.position(key)}: this plugin has no such option",
                    f"its value is {jsontext.dumps(value)[:200]}",
                )


def invalid(position: str, reason: str) -> CallFailed:
    """Make the error for a member that cannot be used."""
    return CallFailed(Code.INVALID_CONFIG, f"{position}: {reason}")
