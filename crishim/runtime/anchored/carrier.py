"""What holds a new pod's namespaces: decided by what it asks, what there is, and the setting `carrier`."""

from __future__ import annotations

from crishim.checkpoint.record import Carrier
from crishim.errors import FrontFailed
from crishim.model import NamespaceMode, NamespaceOption, PodSandboxConfig
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import Host
from crishim.runtime.objects import Sandbox


def choose_carrier(config: PodSandboxConfig, runtime: str, host: Host, settings: RuntimeSettings) -> Carrier:
    """The carrier of a pod that the engine's `runtime` is to run.

    Raises FrontFailed where `anchored` is set and the runtime has no front.
    """
    if settings.carrier == "pause":
        return Carrier.PAUSE
    if host.twin_of(runtime) is not None:
        return Carrier.ANCHORED
    if settings.carrier == "anchored":
        raise FrontFailed(missing_front(runtime))
    return Carrier.PAUSE


def need_twin(runtime: str, host: Host) -> str:
    """The fronted twin that runs containers of anchored pods. Raises FrontFailed."""
    twin = host.twin_of(runtime)
    if twin is None:
        raise FrontFailed(f"the pod is anchored, and {missing_front(runtime)}")
    return twin


def missing_front(runtime: str) -> str:
    """Words for the want of a front."""
    return f"the engine's runtime {runtime!r} has no front that asks this server: `crishim install-runtime` makes one"


def shares_processes(config: PodSandboxConfig) -> bool:
    """Whether the pod's containers share a PID namespace: even an anchored pod then has a process, which reaps."""
    return options_of(config).pid is NamespaceMode.POD


def has_process(sandbox: Sandbox) -> bool:
    """Whether it is an anchored pod with a process."""
    return sandbox.anchored and shares_processes(sandbox.record.config)


def options_of(config: PodSandboxConfig) -> NamespaceOption:
    """The pod's namespace options as asked, with the defaults of an absent message filled in."""
    context = config.linux.security_context if config.linux else None
    return (context.namespace_options if context else None) or NamespaceOption()
