"""Whose namespaces sandbox and containers live in (CRI `NamespaceOption`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import NamespaceMode, NamespaceOption, UserNamespace
from crishim.runtime.spec.ways import Beyond, Ways

_IDS = 2**32 - 1
_NOT_THE_HOSTS = "the host's does not go with a user namespace of the pod"
_POD, _CONTAINER, _NODE, _TARGET = NamespaceMode.POD, NamespaceMode.CONTAINER, NamespaceMode.NODE, NamespaceMode.TARGET


@dataclass(frozen=True, slots=True)
class Modes:
    """The engine's words for the namespaces of one container."""

    network: str
    ipc: str
    pid: str
    uts: str


def make_sandbox_modes(options: NamespaceOption, field: str, ways: Ways | None = None) -> Modes:
    """Namespaces of the sandbox: they are the pod's. `ways`: what the front carries; None: there is none. Raises
    InvalidArgument, UnsupportedField."""
    if options.network not in (_POD, _NODE):
        raise InvalidArgument(f"a pod's network is POD or NODE, not {options.network.name}", field=f"{field}.network")
    if options.ipc not in (_POD, _NODE):
        raise InvalidArgument(f"a pod's IPC is POD or NODE, not {options.ipc.name}", field=f"{field}.ipc")
    if options.pid is _TARGET:
        raise InvalidArgument("TARGET is for containers only", field=f"{field}.pid")
    if options.target_id:
        raise InvalidArgument("is for containers only", field=f"{field}.target_id")
    check_user_namespace(options.userns_options, f"{field}.userns_options", ways)
    if own_user(options) is not None:
        _check_beside_user(options, field)
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
    process: str = "",
) -> Modes:
    """Namespaces of a container in a pod with the options `pod`.

    `options` None: as the pod, with the PID namespace that POD means. `target_in_pod` resolves the id of a running
    container of the same pod or raises. `anchor`: what a container of an anchored pod says of its network; the front
    puts the pod's namespaces in the place of those that are said here. `process`: id of the engine's container whose
    PID namespace such a pod shares; empty: it shares none. Raises InvalidArgument for a contradiction with the pod.
    """
    options = options or NamespaceOption(network=pod.network, ipc=pod.ipc, pid=pod.pid if anchor else _POD)
    if options.network is not pod.network:
        raise _contradiction("network", options.network, pod.network, field)
    if options.ipc is not pod.ipc:
        raise _contradiction("ipc", options.ipc, pod.ipc, field)
    if (user := own_user(pod)) is None:
        check_user_namespace(options.userns_options, f"{field}.userns_options")
    elif options.userns_options not in (None, user):
        raise InvalidArgument("is not the pod's user namespace", field=f"{field}.userns_options")
    elif options.pid is _NODE:
        raise UnsupportedField(_NOT_THE_HOSTS, field=f"{field}.pid")
    if options.target_id and options.pid is not _TARGET:
        raise InvalidArgument("only counts with pid TARGET", field=f"{field}.target_id")
    joined = f"container:{sandbox_id}"
    if options.pid is _POD:
        if anchor and not process:
            raise _contradiction("pid", options.pid, pod.pid, field)
        pid = f"container:{process}" if anchor else joined
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


def own_user(options: NamespaceOption) -> UserNamespace | None:
    """The user namespace that a pod asks to have of its own; None: the host's."""
    user = options.userns_options
    return user if user is not None and user.mode is _POD else None


def _check_beside_user(options: NamespaceOption, field: str) -> None:
    """What a user namespace of the pod's own cannot go with: nobody in it may mount what belongs to the host's."""
    for name in ("network", "ipc", "pid"):
        if getattr(options, name) is _NODE:
            raise UnsupportedField(_NOT_THE_HOSTS, field=f"{field}.{name}")


def check_user_namespace(user: UserNamespace | None, field: str, ways: Ways | None = None) -> None:
    """Raise InvalidArgument for a malformed wish, UnsupportedField for a user namespace of the pod's own where it
    cannot be had. `ways`: what the front carries; None: there is none."""
    if user is None or (user.mode is _NODE and not (user.uids or user.gids)):
        return
    if user.mode is _NODE:
        raise InvalidArgument("mode NODE is the host's user namespace and takes no mappings", field=field)
    if user.mode is not _POD:
        raise InvalidArgument(f"the mode is POD or NODE, not {user.mode.name}", field=f"{field}.mode")
    for name, mappings in (("uids", user.uids), ("gids", user.gids)):
        if len(mappings) != 1:
            raise InvalidArgument(f"exactly one mapping is needed, not {len(mappings)}", field=f"{field}.{name}")
    (ways or Ways()).take(Beyond.USER_NAMESPACE, field)
    for name, (one, *_) in (("uids", user.uids), ("gids", user.gids)):
        if one.container_id != 0:
            raise InvalidArgument("id 0 is not mapped", field=f"{field}.{name}[0].container_id")
        if not 0 < one.length <= _IDS - one.host_id:
            raise InvalidArgument(f"{one.length} ids from {one.host_id} on", field=f"{field}.{name}[0].length")


def _contradiction(which: str, asked: NamespaceMode, pod: NamespaceMode, field: str) -> InvalidArgument:
    return InvalidArgument(f"{asked.name}, but the pod's is {pod.name}: they are one", field=f"{field}.{which}")
