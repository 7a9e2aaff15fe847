"""Network configurations: reading and validating conflists (CNI 1.1.0, section 1).

Validation covers what the specification says of every configuration.  What a plugin's own keys mean is the plugin's
business; they are passed on untouched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cni import jsontext, versions
from cni.errors import ConfError
from cni.names import is_network_name

EXTENSIONS = (".conf", ".conflist", ".json")
"""Files with other names in a configuration folder are not looked at."""

_SIZE_AT_MOST = 1 << 20


@dataclass(frozen=True)
class NetworkConfList:
    """One network: the plugins to be run, in this order."""

    name: str
    cni_version: str
    """Version in which the plugins are spoken to."""
    plugins: tuple[Mapping[str, Any], ...]
    """Plugin configurations as written; each has a valid `type`."""
    disable_check: bool = False
    """CHECK must not be run: its author knows that some plugin fails it without reason."""
    disable_gc: bool = False
    """GC must not be run: the network is shared with other runtimes."""
    text: str = ""
    """All of it as JSON: `parse_conflist` gives an equal list back, without any file."""
    path: str = ""
    """Where it was read from; "" for text."""
    offered: tuple[str, ...] = ()
    """All versions that the configuration offers and this library speaks; `CNI.negotiate` chooses among them."""


@dataclass(frozen=True)
class Loaded:
    """What a configuration folder holds."""

    networks: tuple[NetworkConfList, ...]
    """Usable configurations, sorted by file name."""
    faults: tuple[ConfError, ...]
    """One per file that cannot be used, sorted likewise."""


def load_dir(directory: str) -> Loaded:
    """Read every configuration in `directory`.  A missing folder is an empty one; raises OSError for an unreadable one.

    Of two networks of one name the first counts, the other is a fault.
    """
    networks: list[NetworkConfList] = []
    faults: list[ConfError] = []
    for path in _files(directory):
        try:
            network = load_file(path)
            twin = next((other for other in networks if other.name == network.name), None)
            if twin is not None:
                raise ConfError(
                    f"{network.name!r} is the name of the network in {twin.path}", path=path, position="name"
                )
        except ConfError as fault:
            faults.append(fault)
        else:
            networks.append(network)
    return Loaded(tuple(networks), tuple(faults))


def load_first(directory: str) -> tuple[NetworkConfList | None, tuple[ConfError, ...]]:
    """Return the first usable network of `directory`, and the faults of the files that come before it."""
    faults: list[ConfError] = []
    for path in _files(directory):
        try:
            return load_file(path), tuple(faults)
        except ConfError as fault:
            faults.append(fault)
    return None, tuple(faults)


def load_file(path: str) -> NetworkConfList:
    """Read one configuration file, and the plugins in the folder beside it that bears the network's name.

    (`loadOnlyInlinedPlugins` false, the default: "any valid plugins aggregated from multiple sources must be
    appended".)  Raises ConfError.
    """
    top = _decode(_read(path), path)
    return _conflist(top, path, os.path.dirname(path))


def parse_conflist(text: str, path: str = "") -> NetworkConfList:
    """Read a conflist, or the configuration of a single plugin, from its text.  Raises ConfError."""
    return _conflist(_decode(text, path), path, None)


def _files(directory: str) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(directory) if os.path.splitext(name)[1] in EXTENSIONS)
    except FileNotFoundError:
        return []
    return [path for path in (os.path.join(directory, name) for name in names) if os.path.isfile(path)]


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_SIZE_AT_MOST + 1)
        if len(content) > _SIZE_AT_MOST:
            raise ConfError(f"larger than {_SIZE_AT_MOST} bytes", path=path)
        return content.decode()
    except OSError as error:
        raise ConfError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise ConfError("not UTF-8", path=path, position=f"byte {error.start}") from error


def _decode(text: str, path: str) -> dict[str, Any]:
    try:
        value = jsontext.loads(text)
    except json.JSONDecodeError as error:
        raise ConfError(error.msg, path=path, position=f"line {error.lineno} column {error.colno}") from error
    except ValueError as error:
        raise ConfError(str(error), path=path) from error
    if not isinstance(value, dict):
        raise ConfError("must be a JSON object", path=path)
    return value


def _conflist(top: dict[str, Any], path: str, folder: str | None) -> NetworkConfList:
    def fault(reason: str, position: str) -> ConfError:
        return ConfError(reason, path=path, position=position)

    if "plugins" not in top and "type" in top:  # the configuration of a single plugin
        top = {key: top[key] for key in ("cniVersion", "name") if key in top} | {"plugins": [top]}
        folder = None
    name = top.get("name")
    if not is_network_name(name):
        raise fault("must begin with a letter or digit and hold only letters, digits, '_', '.' and '-'", "name")
    version, offered = _version(top, path)
    flags = {key: _flag(top, key, path) for key in ("disableCheck", "disableGC", "loadOnlyInlinedPlugins")}
    plugins = top.get("plugins", [])
    if not isinstance(plugins, list):
        raise fault("must be a list", "plugins")
    for index, plugin in enumerate(plugins):
        _check_plugin(plugin, f"plugins[{index}]", path)
    if folder is not None and not flags["loadOnlyInlinedPlugins"]:
        plugins = plugins + _plugins_beside(os.path.join(folder, name))
    if not plugins:
        raise fault("must hold at least one plugin", "plugins")
    whole = top | {"cniVersion": version, "plugins": plugins, "loadOnlyInlinedPlugins": True}
    return NetworkConfList(
        name=name,
        cni_version=version,
        plugins=tuple(plugins),
        disable_check=flags["disableCheck"],
        disable_gc=flags["disableGC"],
        text=jsontext.dumps(whole),
        path=path,
        offered=offered,
    )


def _version(top: Mapping[str, Any], path: str) -> tuple[str, tuple[str, ...]]:
    """Return the newest version that is offered and supported, and all of them."""
    offered = top.get("cniVersions", [])
    if not isinstance(offered, list) or not all(isinstance(version, str) for version in offered):
        raise ConfError("must be a list of strings", path=path, position="cniVersions")
    single = top.get("cniVersion", "" if offered else "0.1.0")  # absent means the oldest: CNI 1.1.0, section 1
    if not isinstance(single, str):
        raise ConfError("must be a string", path=path, position="cniVersion")
    version = versions.best((single, *offered))
    if version is None:
        raise ConfError(
            f"{', '.join(filter(None, (single, *offered)))} is not supported, only {', '.join(versions.SUPPORTED)}",
            path=path,
            position="cniVersion",
        )
    return version, tuple(dict.fromkeys(one for one in (single, *offered) if one in versions.SUPPORTED))


def _flag(top: Mapping[str, Any], key: str, path: str) -> bool:
    value = top.get(key, False)
    if isinstance(value, str) and value.lower() in ("true", "false"):  # written so before 1.0.0
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ConfError("must be true or false", path=path, position=key)
    return value


def _check_plugin(plugin: object, position: str, path: str) -> None:
    if not isinstance(plugin, dict):
        raise ConfError("must be an object", path=path, position=position)
    kind = plugin.get("type")
    if not isinstance(kind, str) or not kind or kind in (".", "..") or "/" in kind or "\0" in kind:
        raise ConfError(
            "must be the file name of a plugin, without a folder", path=path, position=f"{position}.type".lstrip(".")
        )
    capabilities = plugin.get("capabilities", {})
    if not isinstance(capabilities, dict) or not all(isinstance(value, bool) for value in capabilities.values()):
        raise ConfError(
            "must be an object of true and false", path=path, position=f"{position}.capabilities".lstrip(".")
        )


def _plugins_beside(folder: str) -> list[dict[str, Any]]:
    """Read the plugin configurations (`*.conf`) in the folder that bears the network's name, sorted."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".conf"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfError(f"cannot be listed: {error.strerror}", path=folder) from error
    plugins = []
    for path in (os.path.join(folder, name) for name in names):
        plugin = _decode(_read(path), path)
        _check_plugin(plugin, "", path)
        plugins.append(plugin)
    return plugins


def fingerprint(directory: str) -> tuple[object, ...]:
    """Return a value that changes when anything changes that `load_first` would read.  Cheap: one stat per file."""
    seen: list[object] = []
    folders = [directory]
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if folder is directory and entry.is_dir():
                        folders.append(entry.path)
                    elif entry.name.endswith(EXTENSIONS):
                        seen.append((entry.path, *_stamp(entry)))
        except OSError as error:
            seen.append((folder, error.errno))
    return tuple(seen)


def _stamp(entry: os.DirEntry[str]) -> tuple[int, ...]:
    try:
        status = entry.stat()
    except OSError as error:  # a link that leads nowhere must not hide the files after it
        return (error.errno or 0,)
    return status.st_mtime_ns, status.st_size, status.st_ino
