"""From CNI_* variables and stdin to a plugin's method and back: what executables and embedded plugins share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cni import jsontext, versions
from cni.args import parse_args
from cni.errors import CNIError, Code
from cni.names import is_container_id, is_interface_name, is_network_name
from cni.plugins.api import VALID_ATTACHMENTS, Call, CallFailed, Plugin
from cni.results import Result, convert, parse_result


@dataclass(frozen=True)
class Answer:
    """What a verb printed, and what is still to be done after that."""

    output: bytes
    deferred: list[Callable[[], None]] = field(default_factory=list)


def run(
    plugin: Plugin,
    environment: Mapping[str, str],
    stdin: bytes,
    deadline: float = float("inf"),
    stopping: threading.Event | None = None,
) -> Answer:
    """Run the verb that `environment` names.  Blocks.  Raises CallFailed for whatever went wrong."""
    verb = environment.get("CNI_COMMAND", "")
    if verb == "VERSION":
        return Answer(_version(stdin))
    if verb not in _VERBS:
        raise CallFailed(Code.INVALID_ENVIRONMENT, f"CNI_COMMAND: {verb!r} is no verb of CNI")
    call = _call(verb, environment, _decode(stdin), deadline, stopping or threading.Event())
    try:
        result = _VERBS[verb](plugin, call)
    except OSError as error:
        raise CallFailed(Code.IO_FAILURE, _told(error)) from error
    if result is None:
        return Answer(b"", call.deferred)
    if result.cni_version != call.version:
        result = convert(result, call.version)
    return Answer(result.text.encode(), call.deferred)


def error_object(error: CallFailed, version: str = versions.NEWEST) -> dict[str, Any]:
    """Return the error object of `error` (CNI 1.1.0, section 5)."""
    told: dict[str, Any] = {"cniVersion": version, "code": error.code, "msg": error.message}
    return told | ({"details": error.details} if error.details else {})


def _add(plugin: Plugin, call: Call) -> Result:
    return plugin.add(call)


def _check(plugin: Plugin, call: Call) -> None:
    if call.prev_result is None:
        raise CallFailed(Code.INVALID_CONFIG, "prevResult: CHECK needs the result of ADD")
    plugin.check(call)


def _delete(plugin: Plugin, call: Call) -> None:
    plugin.delete(call)


def _gc(plugin: Plugin, call: Call) -> None:
    plugin.gc(call)


def _status(plugin: Plugin, call: Call) -> None:
    plugin.status(call)


_VERBS: Mapping[str, Callable[[Plugin, Call], Result | None]] = {
    "ADD": _add,
    "CHECK": _check,
    "DEL": _delete,
    "GC": _gc,
    "STATUS": _status,
}
_SINCE = {"CHECK": versions.has_check, "GC": versions.has_gc_and_status, "STATUS": versions.has_gc_and_status}


def _version(stdin: bytes) -> bytes:
    said = _decode(stdin).get("cniVersion") if stdin.strip() else versions.NEWEST
    answer = {"cniVersion": said if said in versions.SUPPORTED else versions.NEWEST}
    return jsontext.dumps(answer | {"supportedVersions": list(versions.SUPPORTED)}).encode()


def _decode(stdin: bytes) -> dict[str, Any]:
    try:
        config = jsontext.loads(stdin)
    except ValueError as error:
        raise CallFailed(Code.DECODING_FAILURE, f"the configuration is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise CallFailed(Code.DECODING_FAILURE, "the configuration must be a JSON object")
    return config


def _call(
    verb: str, environment: Mapping[str, str], config: dict[str, Any], deadline: float, stopping: threading.Event
) -> Call:
    version = config.get("cniVersion", versions.SUPPORTED[0])
    if version not in versions.SUPPORTED:
        raise CallFailed(
            Code.INCOMPATIBLE_VERSION, f"cniVersion: {version!r} is not one of {', '.join(versions.SUPPORTED)}"
        )
    if verb in _SINCE and not _SINCE[verb](version):
        raise CallFailed(Code.INCOMPATIBLE_VERSION, f"CNI {version} has no {verb}")
    network = config.get("name")
    if not is_network_name(network):
        raise CallFailed(Code.INVALID_CONFIG, f"name: {network!r} is no name of a network")
    of_container = verb in ("ADD", "CHECK", "DEL")
    return Call(
        verb=verb,
        config=config,
        network=str(network),
        version=version,
        prev_result=_prev_result(config, version),
        container_id=_variable(environment, "CNI_CONTAINERID", is_container_id) if of_container else "",
        netns=_netns(environment, required=verb in ("ADD", "CHECK")) if of_container else "",
        ifname=_variable(environment, "CNI_IFNAME", is_interface_name) if of_container else "",
        args=_args(environment),
        valid=_valid(config) if verb == "GC" else frozenset(),
        deadline=deadline,
        stopping=stopping,
    )


def _variable(environment: Mapping[str, str], name: str, valid: Callable[[str], bool]) -> str:
    value = environment.get(name, "")
    if not value:
        raise CallFailed(Code.INVALID_ENVIRONMENT, f"{name} is missing")
    if not valid(value):
        raise CallFailed(Code.INVALID_ENVIRONMENT, f"{name}: {value!r} is not valid")
    return value


def _netns(environment: Mapping[str, str], required: bool) -> str:
    path = environment.get("CNI_NETNS", "")
    if required and not path:
        raise CallFailed(Code.INVALID_ENVIRONMENT, "CNI_NETNS is missing")
    return path


def _args(environment: Mapping[str, str]) -> dict[str, str]:
    try:
        return parse_args(environment.get("CNI_ARGS", ""))
    except CNIError as error:
        raise CallFailed(Code.INVALID_ENVIRONMENT, str(error)) from error


def _prev_result(config: Mapping[str, Any], version: str) -> Result | None:
    raw = config.get("prevResult")
    if raw is None:
        return None
    try:
        return parse_result(jsontext.dumps(raw), version)
    except CNIError as error:
        raise CallFailed(Code.DECODING_FAILURE, f"prevResult: {error}") from error


def _valid(config: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Read the list that GC must have: without one everything would be taken away."""
    listed = config.get(VALID_ATTACHMENTS)
    if not isinstance(listed, list):
        raise CallFailed(Code.INVALID_CONFIG, f"{VALID_ATTACHMENTS}: must be a list")
    kept = set()
    for index, item in enumerate(listed):
        pair = (item.get("containerID"), item.get("ifname")) if isinstance(item, dict) else (None, None)
        if not isinstance(pair[0], str) or not isinstance(pair[1], str):
            raise CallFailed(Code.INVALID_CONFIG, f"{VALID_ATTACHMENTS}[{index}]: needs containerID and ifname")
        kept.add((pair[0], pair[1]))
    return frozenset(kept)


def _told(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"
