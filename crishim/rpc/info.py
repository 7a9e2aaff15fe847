"""What verbose answers tell beyond the interface: JSON for people and tools, under the key `info`."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from crishim.engine.values import EngineImage
from crishim.runtime.objects import Container, Sandbox

if TYPE_CHECKING:
    from crishim.runtime.core import Runtime

KEY = "info"
"""Where crictl looks."""


def sandbox_info(runtime: Runtime, sandbox: Sandbox) -> dict[str, str]:
    """Of a sandbox: process, namespace, attachment, what the engine calls it, and the request as it came."""
    record, live = sandbox.record, sandbox.live
    attached = record.network
    return {
        KEY: to_json(
            {
                "sandboxID": sandbox.id,
                "pid": sandbox.pid,
                "phase": record.phase,
                "carrier": record.carrier,
                "engineID": sandbox.object_id,
                "image": record.image_ref,
                "netNsPath": record.netns_path,
                "runtimeHandler": record.runtime_handler,
                "runtime": live.runtime if live else "",
                "engineName": live.name if live else "",
                "network": {
                    "backend": attached.backend,
                    "interface": attached.interface,
                    "ips": attached.ips,
                    "result": _embedded(attached.result),
                }
                if attached
                else None,
                "overhead": record.overhead,
                "resources": record.resources,
                "config": record.config,
            }
        )
    }


def container_info(runtime: Runtime, container: Container) -> dict[str, str]:
    """Of a container: process, sandbox, runtime, what the engine calls it, and the request as it came."""
    live = container.live
    return {
        KEY: to_json(
            {
                "sandboxID": container.sandbox_id,
                "pid": live.pid if container.running else 0,
                "runtimeType": live.runtime,
                "engineName": live.name,
                "image": container.record.image_ref,
                "oomKilled": live.oom_killed,
                "config": container.record.config,
                "resources": container.record.resources,
            }
        )
    }


def image_info(image: EngineImage) -> dict[str, str]:
    """Of an image: what it says about the process that is to run."""
    return {
        KEY: to_json(
            {
                "created": image.created_at,
                "config": {
                    "User": image.user,
                    "Env": image.env,
                    "Entrypoint": image.entrypoint,
                    "Cmd": image.command,
                    "WorkingDir": image.working_dir,
                    "Labels": image.labels,
                    "Volumes": image.volumes,
                    "StopSignal": image.stop_signal,
                },
            }
        )
    }


def to_json(value: object) -> str:
    """A value of ours as JSON text: dataclasses as objects, enumerations by name, what has no form as its text."""
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value


def _embedded(text: str) -> object:
    """JSON inside JSON as itself; text that is none as text."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
