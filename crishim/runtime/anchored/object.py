"""The engine's object of an anchored pod: it holds the labels and the name, and is started only as the process of a pod
that shares its PID namespace (`process`).

It tells people, and a server that has lost its checkpoints, of the pod. The pod does not depend on it: where it was
taken away (`docker container prune`) it is made again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from crishim.aiokit.steps import step
from crishim.checkpoint.record import SandboxRecord
from crishim.engine.api import Engine
from crishim.engine.values import ContainerSpec, EngineContainer, EngineFacts
from crishim.errors import EngineNotFound
from crishim.runtime import labels
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import Host
from crishim.runtime.names import make_sandbox_name
from crishim.runtime.objects import Sandbox
from crishim.runtime.spec.sandbox import make_sandbox_spec


def for_anchored(spec: ContainerSpec, sandbox_id: str) -> ContainerSpec:
    """A sandbox's spec with the labels of an anchored one."""
    return replace(spec, labels={**spec.labels, **labels.make_anchored_labels(sandbox_id)})


def spec_again(record: SandboxRecord, facts: EngineFacts, host: Host, settings: RuntimeSettings) -> ContainerSpec:
    """The spec of a pod that is there, as of a sandbox, without its image. Raises UnknownRuntimeHandler.

    The pod has its user namespace, whether or not a new one could have it: it is none of the engine's business.
    """
    config, linux = record.config, record.config.linux
    if linux is not None and (context := linux.security_context) is not None and context.namespace_options is not None:
        options = replace(context.namespace_options, userns_options=None)
        config = replace(config, linux=replace(linux, security_context=replace(context, namespace_options=options)))
    spec = make_sandbox_spec(config, record.runtime_handler, image="", facts=facts, host=host, settings=settings)
    return replace(spec, labels=labels.make_sandbox_labels(record.config, record.runtime_handler))


async def find_object(engine: Engine, sandbox: Sandbox) -> EngineContainer | None:
    """The object that bears the sandbox's name and labels, None if there is none. Raises the engine's errors."""
    with suppress(EngineNotFound), step("engine inspect", engine=True):
        live = await engine.inspect(make_sandbox_name(sandbox.metadata))
        return live if labels.anchored_id(live.labels) == sandbox.id else None
    return None


async def remove_object(engine: Engine, sandbox: Sandbox) -> None:
    """Remove the object, by the id that is known or by its name; none is success. Raises the engine's errors."""
    if object_id := sandbox.record.object_id:
        with suppress(EngineNotFound), step("engine remove", engine=True):
            await engine.remove(object_id)
            return
    if (live := await find_object(engine, sandbox)) is not None:
        with suppress(EngineNotFound), step("engine remove", engine=True):
            await engine.remove(live.id)
