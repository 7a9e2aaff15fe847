"""Finds checkpoint stores by name, also those of other packages.

A package that brings one says so in its pyproject.toml:

    [project.entry-points."crishim.checkpoint_stores"]
    journal = "crishim_journal:JournalStore"

The entry is a class (or function) that takes the state folder, a `pathlib.Path`, and makes a `CheckpointStore`, without
touching the folder yet. examples/02-checkpoint-plugin is such a package.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from crishim.checkpoint.api import CheckpointStore
from crishim.checkpoint.errors import UnknownStore

GROUP = "crishim.checkpoint_stores"
"""The entry point group."""


def store_names() -> list[str]:
    """Names of all stores that are installed."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def make_store(name: str, state_dir: Path) -> CheckpointStore:
    """Make the store of this name, not yet opened.

    Raises UnknownStore: none is installed under the name, its code cannot be imported, or what it makes is no store.
    """
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        raise UnknownStore(f"no checkpoint store {name!r}; there are: {', '.join(store_names()) or 'none'}")
    try:
        factory = found[0].load()
    except (ImportError, AttributeError) as error:
        raise UnknownStore(f"checkpoint store {name!r} ({found[0].value}) cannot be loaded: {error}") from error
    store = factory(state_dir)
    if not isinstance(store, CheckpointStore):
        raise UnknownStore(f"checkpoint store {name!r} ({found[0].value}) is no CheckpointStore")
    return store
