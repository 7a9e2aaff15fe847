"""What every plugin of ours is: an object with a method per verb, which get a `Call`.

The methods are synchronous and run in a thread made for that one call (`registry.EmbeddedInvoker`), or in a process of
their own (`executable.main`).  So they may block, and may enter a network namespace as long as the thread leaves it
again (`netns.entered`).  They never fork.
"""

# ruff: noqa: N818 - named by what happened, as in cni.errors

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cni.errors import CNIError, Code
from cni.results import Result

VALID_ATTACHMENTS = "cni.dev/valid-attachments"
"""Key of GC's configuration that holds the attachments to be kept."""


class CallFailed(CNIError):
    """What a plugin reports instead of a result: an error object of the specification."""

    def __init__(self, code: int, message: str, details: str = "") -> None:
        super().__init__(f"{message} ({details})" if details else message)
        self.code = int(code)
        self.message = message
        self.details = details


class Stopped(CallFailed):
    """Nobody waits for the answer any more, or the time is over.  What was done must be undone."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One verb for one attachment, or for a network (GC, STATUS: `container_id`, `netns` and `ifname` are "")."""

    verb: str
    config: Mapping[str, Any]
    """The network configuration of this plugin, as it came on stdin.  A plugin reads it with `options.Reader`."""
    network: str
    """Its `name`."""
    version: str
    """Its `cniVersion`: results are to be in this version (`Result.cni_version`)."""
    prev_result: Result | None = None
    """Result of the plugin before (ADD), of ADD (CHECK, DEL); in `version`."""
    container_id: str = ""
    netns: str = ""
    """Path of the container's network namespace; "" on DEL when it is gone."""
    ifname: str = ""
    args: Mapping[str, str] = field(default_factory=dict)
    """CNI_ARGS."""
    valid: frozenset[tuple[str, str]] = frozenset()
    """GC: the attachments (container id, interface name) that are to be kept."""
    deadline: float = float("inf")
    """Moment (of time.monotonic) by which an answer is wanted."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits any more."""
    deferred: list[Callable[[], None]] = field(default_factory=list)
    """See `later`."""

    def goes_on(self) -> None:
        """Raise Stopped when the time is over or nobody waits.  To be called between the steps of ADD and CHECK.

        Not while undoing, nor in DEL: what DEL has begun it finishes.
        """
        if self.stopping.is_set():
            raise Stopped(Code.TRY_AGAIN_LATER, "it was cancelled")
        if time.monotonic() > self.deadline:
            raise Stopped(Code.TRY_AGAIN_LATER, "its time is over")

    def later(self, work: Callable[[], None]) -> None:
        """Let `work` be done after the answer: for the part of a DEL in which the kernel only waits.

        It runs in the same thread right after the answer was given.  The next verb for this container waits for it,
        and so does `EmbeddedInvoker.settle`, which raises what it raised.  An executable does it before it answers.
        """
        self.deferred.append(work)


class Plugin(ABC):
    """A plugin.  Holds no state of attachments; its methods are called from many threads at once.

    Every method raises CallFailed, whose error object the caller gets; OSError is reported as an I/O failure.
    """

    type: ClassVar[str]
    """Its name in a configuration's `type`."""

    # Masquerading is `cni.plugins.nft.masquerade`, which bridge calls for ipMasq:
    #   add(network, container_id, ifname, addresses)   addresses: "10.1.0.5/24", "fd00::5/64", in the bridge's subnets
    #   remove(network, container_id, ifname)           idempotent
    #   check(network, container_id, ifname, addresses) raises CallFailed
    #   gc(network, valid)                              valid: `Call.valid`

    @abstractmethod
    def add(self, call: Call) -> Result:
        """Attach and return the result.  When it raises, nothing that it did is left."""

    @abstractmethod
    def check(self, call: Call) -> None:
        """Return when the attachment is as `call.prev_result` (never None here) says; else raise."""

    @abstractmethod
    def delete(self, call: Call) -> None:
        """Take away whatever ADD made.  Succeeds for what is gone already, or half there."""

    @abstractmethod
    def gc(self, call: Call) -> None:
        """Take away what belongs to no attachment of `call.valid` in this network."""

    @abstractmethod
    def status(self, call: Call) -> None:
        """Return when an ADD could be served; else raise with code 50 or 51."""
