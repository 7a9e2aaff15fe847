"""The errors of crishim: one family, whose kinds are gRPC's codes and whose leaves carry the noun of CRI.

Every room raises these and lets no error of a library out. `rpc` and `streaming` turn the *kind* into a status of the
wire; nothing ever decides by the text of a message. Each leaf's docstring says when it is raised and, after `Caller:`,
what the caller can do about it; docs/errors.md is made of these.
"""

# ruff: noqa: N818 - leaves are named by CRI's noun and what is wrong with it; a suffix would tell nothing more.

from __future__ import annotations

from crishim.error_kinds import CRIError as CRIError
from crishim.error_kinds import Kind as Kind


class InvalidArgument(CRIError):
    """A field of the request has a value that CRI does not allow; nothing was touched.

    Caller: correct the field whose path begins the message (such as `config.metadata.name`); repeating does not help.
    """

    kind = Kind.INVALID_ARGUMENT

    def __init__(self, message: str, *, field: str = "", **ids: str) -> None:
        """`field`: path of the field from the request's root, put in front of the message."""
        super().__init__(f"{field}: {message}" if field else message, **ids)
        self.field = field


class UnsupportedField(InvalidArgument):
    """A field of the request is legal in CRI, but this version, engine or node cannot do what it asks.

    Nothing was touched: a field is carried out or refused, never dropped.

    Caller: leave the field out, or read in docs/fields.md what it needs.
    """

    kind = Kind.FAILED_PRECONDITION


class AmbiguousId(CRIError):
    """A shortened id fits more than one object; nothing was touched.

    Caller: give more of the id.
    """

    kind = Kind.INVALID_ARGUMENT


class UnknownRuntimeHandler(CRIError):
    """The request names a runtime handler that the engine does not have.

    Caller: choose one of those that Status lists under `runtime_handlers`, or register the runtime with the engine.
    """

    kind = Kind.INVALID_ARGUMENT


class Unimplemented(CRIError):
    """The RPC, or what it needs of the engine or node, is not there.

    Caller: do without; the message says what is missing.
    """

    kind = Kind.UNIMPLEMENTED


# --- Objects of CRI and their states --------------------------------------------------------------------------------


class SandboxNotFound(CRIError):
    """No pod sandbox has this id. Stop and Remove do not raise it: a missing sandbox is their success.

    Caller: list the sandboxes; it may have been removed meanwhile.
    """

    kind = Kind.NOT_FOUND


class ContainerNotFound(CRIError):
    """No container has this id. Stop and Remove do not raise it: a missing container is their success.

    Caller: list the containers; it may have been removed meanwhile.
    """

    kind = Kind.NOT_FOUND


class ImageNotFound(CRIError):
    """A container or volume needs an image that is not on this node. ImageStatus answers empty instead.

    Caller: pull the image, then repeat the call.
    """

    kind = Kind.NOT_FOUND


class NameReserved(CRIError):
    """The name is held by a sandbox (stopped ones, too) or a container; a leftover nobody was told of does not count.

    Caller: stop and remove the holder, or raise the attempt in the metadata.
    """

    kind = Kind.ALREADY_EXISTS


class SandboxNotReady(CRIError):
    """The sandbox is not ready (stopped, half made or half removed), and the call needs a ready one.

    Caller: remove the sandbox and run a new one; it never becomes ready again.
    """

    kind = Kind.FAILED_PRECONDITION


class ContainerNotRunning(CRIError):
    """The call needs a running container, and this one is created or has exited.

    Caller: start it, or create it anew if it has exited.
    """

    kind = Kind.FAILED_PRECONDITION


class ContainerStartFailed(CRIError):
    """The engine could not start the container: no such executable, a refused mount or setting of the kernel.

    The container is EXITED with reason and message then and can never be started, so the code is FAILED_PRECONDITION
    ("do not repeat this call") rather than UNKNOWN, which would leave that open.

    Caller: read ContainerStatus for reason and message, correct the config, remove the container and create a new one.
    """

    kind = Kind.FAILED_PRECONDITION


class ExecFailed(CRIError):
    """The engine could not start the process in the container: no such executable or user, not executable.

    The message is the engine's own. Nothing of the process ran, so it has neither output nor exit code.

    Caller: correct the command; look into the image for what is there.
    """

    kind = Kind.FAILED_PRECONDITION


class ExecTimeout(CRIError):
    """The process did not end within ExecSync's `timeout`; it and the processes it had started were killed.

    Caller: allow more time, or find out what the command waits for.
    """

    kind = Kind.DEADLINE_EXCEEDED


class PortForwardFailed(CRIError):
    """Nothing in the pod accepts connections on this port, on neither 127.0.0.1 nor ::1.

    Caller: check that the application listens, on loopback or all addresses, and on that port.
    """

    kind = Kind.UNAVAILABLE


class ImageInUse(CRIError):
    """The image is used by a container (stopped ones count) and was left whole, with all its names.

    Caller: remove the containers that the message names first.
    """

    kind = Kind.FAILED_PRECONDITION


class TooManyPending(CRIError):
    """Too many exec, attach and port-forward URLs were given out that no client has used yet; nothing was started.

    Caller: use the URLs, or wait: each one lapses after a minute.
    """

    kind = Kind.RESOURCE_EXHAUSTED


# --- Failures that a kubelet knows by the beginning of their message -------------------------------------------------


class RegistryUnavailable(CRIError):
    """The registry could not be reached, or failed on its side, while an image was pulled.

    The code is UNKNOWN because a kubelet recognises the message's beginning only then.

    Caller: repeat later; check the node's way to the registry.
    """

    kind = Kind.UNKNOWN
    prefix = "RegistryUnavailable: "


class SignatureValidationFailed(CRIError):
    """The image's signature does not satisfy the node's policy.

    The code is UNKNOWN because a kubelet recognises the message's beginning only then.

    Caller: sign the image, or change the policy; repeating does not help.
    """

    kind = Kind.UNKNOWN
    prefix = "SignatureValidationFailed: "


class RROUnsupported(CRIError):
    """A recursively read-only mount was asked for, and engine, runtime or kernel cannot make one.

    Caller: run the pod on a node whose Status reports `recursive_read_only_mounts`, or ask for a plain read-only mount.
    """

    kind = Kind.FAILED_PRECONDITION
    prefix = "RROUnsupported: "


class ImageVolumeMountFailed(CRIError):
    """The content of an image could not be mounted as a volume.

    Caller: read the message for what is missing: the image, the sub path in it, or the engine's support.
    """

    kind = Kind.FAILED_PRECONDITION
    prefix = "ImageVolumeMountFailed: "


# --- The engine -----------------------------------------------------------------------------------------------------


class EngineUnavailable(CRIError):
    """The engine cannot be reached or broke off; nothing is known about what the call did there.

    Caller: repeat later; crishim reconnects by itself, and Status tells why it is not ready.
    """

    kind = Kind.UNAVAILABLE


class EngineUnsuitable(CRIError):
    """The engine answers, but cannot carry pods: too old, rootless, with remapped users, on another machine.

    Caller: reconfigure or replace the engine as the message says; repeating does not help.
    """

    kind = Kind.FAILED_PRECONDITION


class EngineTimeout(CRIError):
    """The engine did not answer within the call's limit; nothing is known about what the call did there.

    Caller: repeat the call; what it may have left behind is found and used or removed then.
    """

    kind = Kind.DEADLINE_EXCEEDED


class EngineError(CRIError):
    """The engine answered and refused; the code follows from the status of its answer.

    Caller: read the message, which is the engine's own; the engine's log may say more.
    """

    def __init__(self, message: str, *, kind: Kind | None = None, **ids: str) -> None:
        """`kind`: what the engine's status means; None leaves the class's own."""
        super().__init__(message, **ids)
        if kind is not None:
            self.kind = kind


class EngineNotFound(EngineError):
    """The engine does not have the object: it was removed behind crishim's back, or is going away at this moment.

    Caller: list again; the index has been corrected.
    """

    kind = Kind.NOT_FOUND


class EngineConflict(EngineError):
    """The object's state in the engine does not allow the call: a name in use, a removal under way, still running.

    Caller: list again and decide by the state now told.
    """

    kind = Kind.FAILED_PRECONDITION


class ListenerTooSlow(CRIError):
    """A listener of GetContainerEvents did not read for so long that its events passed `--event-backlog`.

    Caller: list pods and containers, and listen again.
    """

    kind = Kind.RESOURCE_EXHAUSTED


# --- Network, state and undoing -------------------------------------------------------------------------------------


class NetworkNotReady(CRIError):
    """There is no usable pod network yet; pods with host network are not concerned.

    Caller: install or correct the network configuration, then repeat; Status tells the reason under NetworkReady.
    """

    kind = Kind.UNAVAILABLE


class NetworkFailed(CRIError):
    """Attaching a sandbox to the pod network, or detaching it, failed in a plugin.

    Caller: repeat the call; StopPodSandbox fails with this until detaching has worked, so that no address leaks.
    """

    kind = Kind.INTERNAL


class HostPortTaken(NetworkFailed):
    """A pod of the embedded network asked for a host port that another pod has; the message names both.

    Caller: stop the other pod, or ask for another port; then repeat the call.
    """

    kind = Kind.FAILED_PRECONDITION


class NetnsError(CRIError):
    """A network namespace could not be made, pinned, entered or released.

    Caller: check that `--netns-dir` lies on a shared mount and that crishim runs as root in the host's namespaces.
    """

    kind = Kind.INTERNAL


class LogFailed(CRIError):
    """A container's log cannot be written where it was asked for, or the engine's file behind it cannot be read.

    Caller: see to what the text names (what lies at the path, its folder, room on the disk), then repeat.
    """

    kind = Kind.FAILED_PRECONDITION


class FrontFailed(CRIError):
    """What was asked for is the runtime front's to carry, and it cannot be; nothing runs without it.

    Caller: see to what the text names; `crishim check` tells whether the front is as it should be.
    """

    kind = Kind.FAILED_PRECONDITION


class CheckpointFailed(CRIError):
    """A record of the checkpoint store could not be written or read, for example on a full disk.

    Caller: make room or repair the state folder, then repeat; what the call had done was undone.
    """

    kind = Kind.INTERNAL
