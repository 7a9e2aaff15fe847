"""Finds pod networks by name, also those of other packages.

A package that brings one says so in its pyproject.toml:

    [project.entry-points."crishim.networks"]
    overlay = "crishim_overlay:OverlayNetwork.from_setup"

The entry is a class or function that takes a `crishim.network.setup.NetworkSetup` and makes a `PodNetwork`, without
touching anything yet.  `crishim.testing.network_contract` says what it must do.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from crishim.errors import Unimplemented
from crishim.network.api import PodNetwork
from crishim.network.setup import NetworkSetup

GROUP = "crishim.networks"
"""The entry point group."""


def network_names() -> list[str]:
    """Names of all networks that are installed."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def make_backend(name: str, setup: NetworkSetup) -> PodNetwork:
    """Make the network of this name, not yet started.

    Raises Unimplemented: none is installed under the name, its code cannot be imported, or what it makes is none.
    """
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        raise Unimplemented(f"there is no network {name!r}: choose auto, {', '.join(network_names())}")
    try:
        network = found[0].load()(setup)
    except (ImportError, AttributeError) as error:
        raise Unimplemented(f"network {name!r} ({found[0].value}) cannot be loaded: {error}") from error
    if not isinstance(network, PodNetwork):
        raise Unimplemented(f"network {name!r} ({found[0].value}) is no PodNetwork")
    return network
