"""A real plugin that does what a test tells it: hang, fail, crash, flood, and log how it was called."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Call:
    """One run of the plugin, from its log."""

    verb: str
    environment: Mapping[str, str]
    config: Mapping[str, Any]
    """What it read on stdin; {} where it was told not to read."""
    pid: int
    status: int | None
    """Exit status; None when it was ended before it came so far (or still runs)."""


class ScriptedPlugin:
    """A scriptable plugin, installed as `NAME` in a folder for plugins.

    Steps, per verb: `result` (ADD's; default: prevResult, else one address 192.0.2.2/24), `error` (code, msg, details),
    `exit`, `signal` (to itself), `stdout` and `stderr` (text), `sleep` (seconds), `until` (goes on when this path
    exists), `ignore` (signal names), `read_stdin` (false: does not), `child` (leaves `sleep N` behind, which holds the
    pipes), `versions` (VERSION's answer).
    """

    def __init__(self, folder: Path | str, name: str) -> None:
        """Install it.  Raises OSError."""
        self.name = name
        self.path = Path(folder, name)
        source = resources.files(__package__).joinpath("plugin.py").read_text(encoding="utf-8")
        self.path.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
        self.path.chmod(0o755)

    def script(self, **steps: Mapping[str, Any]) -> None:
        """Set what each verb does from now on: `script(ADD={"sleep": 20}, DEL={"error": {"code": 7, "msg": "no"}})`."""
        text = json.dumps(steps)
        temporary = self.path.with_name(f"{self.name}.script.new")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, f"{self.path}.script")

    def calls(self, *verbs: str) -> list[Call]:
        """Return the runs logged so far in the order in which they began; only of `verbs` where any are given."""
        try:
            lines = Path(f"{self.path}.log").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        entries = [json.loads(line) for line in lines]
        status = {entry["run"]: entry["status"] for entry in entries if entry["event"] == "ended"}
        return [
            Call(
                entry["verb"],
                entry["environment"],
                json.loads(entry["stdin"] or "{}"),
                entry["pid"],
                status.get(entry["run"]),
            )
            for entry in entries
            if entry["event"] == "begun" and (not verbs or entry["verb"] in verbs)
        ]
