"""Whose namespaces sandbox and containers live in (CRI `NamespaceOption`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import NamespaceMode, NamespaceOption, UserNamespace

_POD, _CONTAINER, _NODE, _TARGET = NamespaceMode.POD, NamespaceMode.CONTAINER, NamespaceMode.NODE, NamespaceMode.TARGET


@dataclass(frozen=True, slots=True)
class Modes:
    """The engine's words for the namespaces of one container."""

    network: str
    ipc: str
    pid: str
    uts: str


def make_sandbox_modes(options: NamespaceOption, field: str) -> Modes:
    """Namespaces of the sandbox: they are the pod's. Raises InvalidArgument, UnsupportedField."""
    if options.network not in (_POD, _NODE):
        raise InvalidArgument(f"a pod's network is POD or NODE, not {options.network.name}", field=f"{field}.network")
    if options.ipc not in (_POD, _NODE):
        raise InvalidArgument(f"a pod's IPC is POD or NODE, not {options.ipc.name}", field=f"{field}.ipc")
    if options.pid is _TARGET:
        raise InvalidArgument("TARGET is for containers only", field=f"{field}.pid")
    if options.target_id:
        raise InvalidArgument("is for containers only", field=f"{field}.target_id")
    check_user_namespace(options.userns_options, f"{field}.userns_options")
    host = options.network is _NODE
    return Modes(
        network="host" if host else "none",
        # The engine's default is private, which nobody can join.
        ipc="host" if options.ipc is _NODE else "shareable",
        pid="host" if options.pid is _NODE else "",
        uts="host" if host else "",
    )


def make_container_modes(
    options: NamespaceOption | None,
    pod: NamespaceOption,
    sandbox_id: str,
    target_in_pod: Callable[[str], str],
    field: str,
    *,
    anchor: str = "",
) -> Modes:
    """Namespaces of a container in a pod with the options `pod`.

    `options` None: as the pod, with the PID namespace that POD means. `target_in_pod` resolves the id of a running
    container of the same pod or raises. `anchor`: what a container of an anchored pod says of its network; the front
    puts the pod's namespaces in the place of those that are said here. Raises InvalidArgument for a contradiction with
    the pod.
    """
    options = options or NamespaceOption(network=pod.network, ipc=pod.ipc, pid=pod.pid if anchor else _POD)
    if options.network is not pod.network:
        raise _contradiction("network", options.network, pod.network, field)
    if options.ipc is not pod.ipc:
        raise _contradiction("ipc", options.ipc, pod.ipc, field)
    check_user_namespace(options.userns_options, f"{field}.userns_options")
    if options.target_id and options.pid is not _TARGET:
        raise InvalidArgument("only counts with pid TARGET", field=f"{field}.target_id")
    joined = f"container:{sandbox_id}"
    if options.pid is _POD:
        if anchor:
            raise _contradiction("pid", options.pid, pod.pid, field)
        pid = joined
    elif options.pid is _CONTAINER:
        pid = ""
    elif options.pid is _NODE:
        pid = "host"
    else:
        pid = f"container:{target_in_pod(options.target_id)}"
    if anchor:
        return Modes(
            network="host" if pod.network is _NODE else anchor,
            ipc="host" if pod.ipc is _NODE else "private",
            pid=pid,
            uts="host" if pod.network is _NODE else "",
        )
    return Modes(
        # With host network, too: joining gives the container the sandbox's resolv.conf.
        network=joined,
        ipc="host" if pod.ipc is _NODE else joined,
        pid=pid,
        uts="host" if pod.network is _NODE else "",
    )


def check_user_namespace(user: UserNamespace | None, field: str) -> None:
    """Raise InvalidArgument for a malformed wish, UnsupportedField for a user namespace of the pod's own."""
    if user is None or (user.mode is _NODE and not (user.uids or user.gids)):
        return
    if user.mode is _NODE:
        raise InvalidArgument("mode NODE is the host's user namespace and takes no mappings", field=field)
    if user.mode is not _POD:
        raise InvalidArgument(f"the mode is POD or NODE, not {user.mode.name}", field=f"{field}.mode")
    for name, mappings in (("uids", user.uids), ("gids", user.gids)):
        if len(mappings) != 1:
            raise InvalidArgument(f"exactly one mapping is needed, not {len(mappings)}", field=f"{field}.{name}")
    raise UnsupportedField("a user namespace per pod cannot be had through the engine's API", field=field)


def _contradiction(which: str, asked: NamespaceMode, pod: NamespaceMode, field: str) -> InvalidArgument:
    return InvalidArgument(f"{asked.name}, but the pod's is {pod.name}: they are one", field=f"{field}.{which}")
