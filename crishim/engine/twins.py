"""Fronted twins: by which name the engine knows the front of a runtime (`crishim.front`).

The twin of the runtime `runc` is `crishim-runc`. Twins run containers of crishim's own that need it, and are nothing
that a pod may name.
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "crishim-"


def twin_name(runtime: str) -> str:
    """The name of a runtime's twin."""
    return PREFIX + runtime


def split_twins(runtimes: Iterable[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The runtimes that are no twins, in order, and for those that have one its name.

    A runtime is a twin only where the one it is named after is there.
    """
    names = set(runtimes)
    twins = {name.removeprefix(PREFIX): name for name in names if name.startswith(PREFIX)}
    twins = {runtime: twin for runtime, twin in twins.items() if runtime in names}
    return tuple(sorted(names - set(twins.values()))), twins
