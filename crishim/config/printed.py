"""Settings as a configuration file, for `--print-config`: what is in force, and where each value is from."""

from __future__ import annotations

import json
from pathlib import Path

from crishim.config.sources import Loaded


def print_config(loaded: Loaded) -> str:
    """The file's text. Settings without a value are shown as comments, as TOML has no word for none."""
    lines = []
    for key in type(loaded.settings).model_fields:
        origin = loaded.origins.get(key, "default")
        value = getattr(loaded.settings, key)
        lines.append(f"# {key} is not set  # {origin}" if value is None else f"{key} = {to_toml(value)}  # {origin}")
    return "\n".join(lines) + "\n"


def to_toml(value: object) -> str:
    """One value of a setting in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(to_toml(item) for item in value)}]"
    if isinstance(value, str | Path):
        # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007F")
    return str(value)
