"""From a network's configuration to what one plugin reads on stdin (CNI 1.1.0, "Deriving execution configuration").

Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cni.conf import NetworkConfList

_REMOVED = ("capabilities", "runtimeConfig", "prevResult", "cniVersions")


def execution_config(
    network: NetworkConfList,
    plugin: Mapping[str, Any],
    capability_args: Mapping[str, Any] | None = None,
    prev_result: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the configuration with which `plugin` of `network` is executed.

    `capability_args`: dynamic arguments by capability; a plugin gets those whose capability it declares true.
    `prev_result`: a result in the network's version, None where there is none.
    """
    config = {key: value for key, value in plugin.items() if key not in _REMOVED and not key.startswith("cni.dev/")}
    config["name"] = network.name
    config["cniVersion"] = network.cni_version
    declared = plugin.get("capabilities", {})
    dynamic = {key: value for key, value in (capability_args or {}).items() if declared.get(key) is True}
    if dynamic:
        config["runtimeConfig"] = dynamic
    if prev_result is not None:
        config["prevResult"] = prev_result
    return config


def gc_config(network: NetworkConfList, plugin: Mapping[str, Any], valid: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the configuration for GC: `valid` are the attachments (container id, interface name) to be kept."""
    config = execution_config(network, plugin)
    config["cni.dev/valid-attachments"] = [
        {"containerID": container_id, "ifname": ifname} for container_id, ifname in valid
    ]
    return config
