"""Walking a configuration: parts of it with their type checked, and copies with one part changed.

Nothing is changed in place: what is not on the way to a changed part is shared with the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crishim.runtime.oci.wish import UnfitConfig

Config = Mapping[str, Any]
"""An object of JSON."""


def at(config: Config, path: tuple[str, ...], change: Callable[[Config], Config]) -> dict[str, Any]:
    """A copy in which the object at `path` is what `change` makes of it; of an empty one where there is none."""
    if not path:
        return dict(change(config))
    name, *rest = path
    return {**config, name: at(mapping(config, name), tuple(rest), change)}


def mapping(config: Config, name: str) -> Config:
    """The object in a field, an empty one where there is none. Raises UnfitConfig for anything else."""
    value = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UnfitConfig(f"{name} is no object")
    return value


def objects(config: Config, name: str) -> list[Config]:
    """The list of objects in a field, an empty one where there is none. Raises UnfitConfig for anything else."""
    return [_object(item, name) for item in _list(config, name)]


def texts(config: Config, name: str) -> list[str]:
    """The list of texts in a field, an empty one where there is none. Raises UnfitConfig for anything else."""
    found = _list(config, name)
    if not all(isinstance(item, str) for item in found):
        raise UnfitConfig(f"{name} holds more than text")
    return found


def _list(config: Config, name: str) -> list[Any]:
    value = config.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnfitConfig(f"{name} is no list")
    return value


def _object(item: object, name: str) -> Config:
    if not isinstance(item, Mapping):
        raise UnfitConfig(f"{name} holds something that is no object")
    return item
