"""Attachments kept in files, in libcni's layout: what DEL and CHECK need when the runtime was restarted since ADD.

One file per attachment below `results/` in the folder, so other tools that know that layout see ours and we see theirs.
All functions block, for a few file operations: for a thread.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cni import jsontext
from cni.api import Attachment
from cni.conf import NetworkConfList, parse_conflist
from cni.errors import CNIError
from cni.results import Result, parse_result

DEFAULT = "/var/lib/cni"
"""Where libcni keeps its files."""
_KIND = "cniCacheV1"


@dataclass(frozen=True)
class Cached:
    """An attachment, with the configuration it was made with and ADD's result."""

    network: NetworkConfList
    attachment: Attachment
    result: Result | None
    """None: ADD was begun, and its end is not known."""


class CacheDamaged(CNIError):  # noqa: N818 - as in cni.errors
    """A file that holds no attachment."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


class AttachmentCache:
    """Attachments in a folder.  An entry is whole or not there, whenever the process or the machine stops."""

    def __init__(self, directory: str = DEFAULT) -> None:
        self._folder = os.path.join(directory, "results")

    def put(self, network: NetworkConfList, attachment: Attachment, result: Result | None = None) -> None:
        """Keep an attachment: before ADD without result, so that it is known to need a DEL; after it with.

        Raises OSError.
        """
        entry: dict[str, Any] = {
            "kind": _KIND,
            "containerId": attachment.container_id,
            "config": base64.b64encode(network.text.encode()).decode(),
            "ifName": attachment.ifname,
            "networkName": network.name,
            "netns": attachment.netns,
            "cniArgs": [[key, value] for key, value in attachment.args.items()],
            "capabilityArgs": dict(attachment.capability_args),
        }
        if result is not None:
            entry["result"] = result.raw
        os.makedirs(self._folder, 0o700, exist_ok=True)
        path = self._path(network.name, attachment.container_id, attachment.ifname)
        unfinished = os.path.join(self._folder, f".{os.path.basename(path)}")
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write(jsontext.dumps(entry))
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, path)

    def get(self, network: str, container_id: str, ifname: str) -> Cached | None:
        """Return an attachment, None when it is not kept.  Raises CacheDamaged, OSError."""
        try:
            return _read(self._path(network, container_id, ifname))
        except FileNotFoundError:
            return None

    def remove(self, network: str, container_id: str, ifname: str) -> None:
        """Forget an attachment, after its DEL; one that is not kept is no error.  Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(network, container_id, ifname))

    def all(self) -> tuple[tuple[Cached, ...], tuple[CacheDamaged, ...]]:
        """Return all attachments, and the files that hold none; sorted by file.  Raises OSError."""
        kept: list[Cached] = []
        damaged: list[CacheDamaged] = []
        try:
            names = sorted(name for name in os.listdir(self._folder) if not name.startswith("."))
        except FileNotFoundError:
            return (), ()
        for name in names:
            try:
                kept.append(_read(os.path.join(self._folder, name)))
            except CacheDamaged as fault:
                damaged.append(fault)
            except FileNotFoundError:  # removed meanwhile
                continue
        return tuple(kept), tuple(damaged)

    def _path(self, network: str, container_id: str, ifname: str) -> str:
        return os.path.join(self._folder, f"{network}-{container_id}-{ifname}")


def _read(path: str) -> Cached:
    try:
        with open(path, "rb") as file:
            entry = jsontext.loads(file.read())
        if not isinstance(entry, dict) or entry.get("kind") != _KIND:
            raise ValueError(f"is not of the kind {_KIND}")
        network = parse_conflist(base64.b64decode(entry["config"], validate=True).decode(), path)
        return Cached(network, _attachment(entry), _result(entry, network))
    except KeyError as error:
        raise CacheDamaged(path, f"lacks {error}") from error
    except (ValueError, TypeError, binascii.Error, CNIError) as error:
        raise CacheDamaged(path, str(error)) from error


def _attachment(entry: Mapping[str, Any]) -> Attachment:
    return Attachment(
        container_id=entry["containerId"],
        ifname=entry["ifName"],
        netns=entry.get("netns") or "",
        args=dict(entry.get("cniArgs") or ()),
        capability_args=entry.get("capabilityArgs") or {},
    )


def _result(entry: Mapping[str, Any], network: NetworkConfList) -> Result | None:
    if entry.get("result") is None:
        return None
    return parse_result(jsontext.dumps(entry["result"]), network.cni_version)
