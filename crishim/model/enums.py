"""The enumerations of CRI v1 that requests carry or that our own state is told in.

Member names and numbers are the wire's, so that a value can be read beside the interface without a second table. They
are `IntEnum`s because the wire, and the checkpoint's JSON, carry the number.
"""

from __future__ import annotations

import enum


class Protocol(enum.IntEnum):
    """Transport of a port mapping (CRI `Protocol`)."""

    TCP = 0
    UDP = 1
    SCTP = 2


class MountPropagation(enum.IntEnum):
    """Which way mounts made under a mount point travel (CRI `MountPropagation`).

    `PRIVATE`: neither way (`rprivate`). `HOST_TO_CONTAINER`: the container sees what the host mounts later (`rslave`).
    `BIDIRECTIONAL`: the host sees the container's mounts as well (`rshared`).
    """

    PROPAGATION_PRIVATE = 0
    PROPAGATION_HOST_TO_CONTAINER = 1
    PROPAGATION_BIDIRECTIONAL = 2


class NamespaceMode(enum.IntEnum):
    """Whose kernel namespace a process gets (CRI `NamespaceMode`).

    `POD`: the one that the pod's containers share. `CONTAINER`: its own. `NODE`: the host's. `TARGET`: that of the
    container named in `NamespaceOption.target_id`. Zero is `POD`: an absent message means "share with the pod".
    """

    POD = 0
    CONTAINER = 1
    NODE = 2
    TARGET = 3


class SupplementalGroupsPolicy(enum.IntEnum):
    """Whether the groups that the image's /etc/group gives the user count (CRI `SupplementalGroupsPolicy`).

    `Merge` adds them to the groups of the request; `Strict` takes those of the request alone.
    """

    Merge = 0
    Strict = 1


class ProfileType(enum.IntEnum):
    """Where a seccomp or AppArmor profile comes from (CRI `SecurityProfile.ProfileType`).

    `Localhost` names a profile of the node by `SecurityProfile.localhost_ref`.
    """

    RuntimeDefault = 0
    Unconfined = 1
    Localhost = 2


class PodSandboxState(enum.IntEnum):
    """State of a pod sandbox (CRI `PodSandboxState`). Ready only when every step of RunPodSandbox is done."""

    SANDBOX_READY = 0
    SANDBOX_NOTREADY = 1


class ContainerState(enum.IntEnum):
    """State of a container (CRI `ContainerState`). It moves from CREATED to RUNNING to EXITED and never back.

    `CONTAINER_UNKNOWN` is for a state that really cannot be known; an engine that does not answer is no reason.
    """

    CONTAINER_CREATED = 0
    CONTAINER_RUNNING = 1
    CONTAINER_EXITED = 2
    CONTAINER_UNKNOWN = 3


class CgroupDriver(enum.IntEnum):
    """Who makes the cgroups: systemd units or plain folders (CRI `CgroupDriver`).

    Zero is `SYSTEMD`: an unknown driver must be told by leaving the message out, never by the default value.
    """

    SYSTEMD = 0
    CGROUPFS = 1


class Signal(enum.IntEnum):
    """Signal that asks a container to stop (CRI `Signal`).

    The numbers are the interface's own and not the kernel's; several names are aliases of one kernel signal (CLD of
    CHLD, IOT of ABRT, POLL of IO). `SIGNAL_RUNTIME_DEFAULT` means "not asked": the image's signal, else TERM.
    """

    SIGNAL_RUNTIME_DEFAULT = 0
    SIGNAL_SIGABRT = 1
    SIGNAL_SIGALRM = 2
    SIGNAL_SIGBUS = 3
    SIGNAL_SIGCHLD = 4
    SIGNAL_SIGCLD = 5
    SIGNAL_SIGCONT = 6
    SIGNAL_SIGFPE = 7
    SIGNAL_SIGHUP = 8
    SIGNAL_SIGILL = 9
    SIGNAL_SIGINT = 10
    SIGNAL_SIGIO = 11
    SIGNAL_SIGIOT = 12
    SIGNAL_SIGKILL = 13
    SIGNAL_SIGPIPE = 14
    SIGNAL_SIGPOLL = 15
    SIGNAL_SIGPROF = 16
    SIGNAL_SIGPWR = 17
    SIGNAL_SIGQUIT = 18
    SIGNAL_SIGSEGV = 19
    SIGNAL_SIGSTKFLT = 20
    SIGNAL_SIGSTOP = 21
    SIGNAL_SIGSYS = 22
    SIGNAL_SIGTERM = 23
    SIGNAL_SIGTRAP = 24
    SIGNAL_SIGTSTP = 25
    SIGNAL_SIGTTIN = 26
    SIGNAL_SIGTTOU = 27
    SIGNAL_SIGURG = 28
    SIGNAL_SIGUSR1 = 29
    SIGNAL_SIGUSR2 = 30
    SIGNAL_SIGVTALRM = 31
    SIGNAL_SIGWINCH = 32
    SIGNAL_SIGXCPU = 33
    SIGNAL_SIGXFSZ = 34
    SIGNAL_SIGRTMIN = 35
    SIGNAL_SIGRTMINPLUS1 = 36
    SIGNAL_SIGRTMINPLUS2 = 37
    SIGNAL_SIGRTMINPLUS3 = 38
    SIGNAL_SIGRTMINPLUS4 = 39
    SIGNAL_SIGRTMINPLUS5 = 40
    SIGNAL_SIGRTMINPLUS6 = 41
    SIGNAL_SIGRTMINPLUS7 = 42
    SIGNAL_SIGRTMINPLUS8 = 43
    SIGNAL_SIGRTMINPLUS9 = 44
    SIGNAL_SIGRTMINPLUS10 = 45
    SIGNAL_SIGRTMINPLUS11 = 46
    SIGNAL_SIGRTMINPLUS12 = 47
    SIGNAL_SIGRTMINPLUS13 = 48
    SIGNAL_SIGRTMINPLUS14 = 49
    SIGNAL_SIGRTMINPLUS15 = 50
    SIGNAL_SIGRTMAXMINUS14 = 51
    SIGNAL_SIGRTMAXMINUS13 = 52
    SIGNAL_SIGRTMAXMINUS12 = 53
    SIGNAL_SIGRTMAXMINUS11 = 54
    SIGNAL_SIGRTMAXMINUS10 = 55
    SIGNAL_SIGRTMAXMINUS9 = 56
    SIGNAL_SIGRTMAXMINUS8 = 57
    SIGNAL_SIGRTMAXMINUS7 = 58
    SIGNAL_SIGRTMAXMINUS6 = 59
    SIGNAL_SIGRTMAXMINUS5 = 60
    SIGNAL_SIGRTMAXMINUS4 = 61
    SIGNAL_SIGRTMAXMINUS3 = 62
    SIGNAL_SIGRTMAXMINUS2 = 63
    SIGNAL_SIGRTMAXMINUS1 = 64
    SIGNAL_SIGRTMAX = 65
