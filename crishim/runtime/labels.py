"""Labels on the engine's objects: they hold the identity, so that nothing is lost with the checkpoints.

Two layers. The convention of dockershim and cri-dockerd, which log agents and people read: the pod's own
labels as they are, annotations under `annotation.`, and a few keys of the convention, which win. And the request
itself under one key of ours, because the convention cannot give back a label that looks like one of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from crishim.checkpoint.record import Carrier
from crishim.model import ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig, PodSandboxMetadata
from crishim.runtime.names import SANDBOX_CONTAINER, parse_name

if TYPE_CHECKING:
    from pydantic import TypeAdapter

TYPE = "io.kubernetes.docker.type"
SANDBOX, CONTAINER = "podsandbox", "container"
IMAGE_VIEW = "imageview"
"""A container that is never started, and never listed: it holds the layers of an image that is shown to others."""
SANDBOX_ID = "io.kubernetes.sandbox.id"
LOG_PATH = "io.kubernetes.container.logpath"
ANNOTATION = "annotation."
CONFIG = "io.crishim.config"
HANDLER = "io.crishim.runtime-handler"
VIEWED_IMAGE = "io.crishim.viewed-image"
CARRIER = "io.crishim.carrier"
"""On the objects of sandboxes that are anchored, whose own id is under `SANDBOX_ID`."""
ANCHOR = "io.crishim.anchor"
"""On a node's anchor: the folder of the server that it belongs to."""

_POD_NAME, _POD_NAMESPACE, _POD_UID = ("io.kubernetes.pod." + k for k in ("name", "namespace", "uid"))
_CONTAINER_NAME = "io.kubernetes.container.name"
ANCHORED = {TYPE: SANDBOX, CARRIER: str(Carrier.ANCHORED)}
"""Labels of the engine's objects of anchored pods."""
_OURS = frozenset((TYPE, SANDBOX_ID, LOG_PATH, CONFIG, HANDLER, CARRIER))


@functools.cache
def _sandbox_config() -> TypeAdapter[PodSandboxConfig]:
    # Building one takes 60 ms: not at import.
    from pydantic import TypeAdapter

    return TypeAdapter(PodSandboxConfig)


@functools.cache
def _container_config() -> TypeAdapter[ContainerConfig]:
    from pydantic import TypeAdapter

    return TypeAdapter(ContainerConfig)


def make_sandbox_labels(config: PodSandboxConfig, runtime_handler: str) -> dict[str, str]:
    """Labels for a sandbox's container."""
    pod = config.metadata
    assert pod is not None
    # Whoever makes a pod chooses its labels, and does not choose what holds its namespaces.
    user = {key: value for key, value in config.labels.items() if key != CARRIER}
    return {
        **_convention(user, config.annotations),
        _CONTAINER_NAME: SANDBOX_CONTAINER,
        **make_pod_labels(pod),
        TYPE: SANDBOX,
        HANDLER: runtime_handler,
        CONFIG: _sandbox_config().dump_json(config, exclude_defaults=True).decode(),
    }


def make_anchored_labels(sandbox_id: str) -> dict[str, str]:
    """What the object of an anchored sandbox has beyond that."""
    return {SANDBOX_ID: sandbox_id, CARRIER: Carrier.ANCHORED}


def anchored_id(labels: Mapping[str, str]) -> str:
    """The id of the anchored sandbox that these labels of a sandbox's object tell of; empty: of none."""
    anchored = labels.get(TYPE) == SANDBOX and labels.get(CARRIER) == Carrier.ANCHORED
    return labels.get(SANDBOX_ID, "") if anchored else ""


def make_container_labels(config: ContainerConfig, sandbox_id: str, log_path: str) -> dict[str, str]:
    """Labels for a container; its environment is left out, since people list labels far and wide."""
    return {
        **_convention(config.labels, config.annotations),
        TYPE: CONTAINER,
        SANDBOX_ID: sandbox_id,
        LOG_PATH: log_path,
        CONFIG: _container_config().dump_json(replace(config, envs=()), exclude_defaults=True).decode(),
    }


def parse_sandbox_request(labels: Mapping[str, str]) -> PodSandboxConfig | None:
    """The request that made the sandbox, exactly as it came; None where no label of ours holds a readable one."""
    try:
        config = _sandbox_config().validate_json(labels[CONFIG])
    except (KeyError, ValueError):
        return None  # another shim's, or written by a later version, or by hand: the convention still tells who it is
    named = config.metadata is not None and config.metadata.name and config.metadata.uid
    return config if named else None


def parse_sandbox_convention(labels: Mapping[str, str], engine_name: str) -> PodSandboxConfig | None:
    """What the convention tells of the request that made the sandbox; None if it is nobody's sandbox."""
    name = parse_name(engine_name)
    metadata = parse_pod(labels, engine_name)
    if metadata is None:
        return None
    user, annotations = _parse_convention(labels)
    if user.get(_CONTAINER_NAME) == SANDBOX_CONTAINER:
        del user[_CONTAINER_NAME]  # the convention's mark, not the pod's
    return PodSandboxConfig(
        metadata=replace(metadata, attempt=name[4] if name else 0), labels=user, annotations=annotations
    )


def parse_pod(labels: Mapping[str, str], engine_name: str) -> PodSandboxMetadata | None:
    """The pod that a sandbox or container belongs to, attempt 0; None if neither labels nor name tell."""
    name = parse_name(engine_name)
    pod, namespace, uid = name[1:4] if name else ("", "", "")
    metadata = PodSandboxMetadata(
        name=labels.get(_POD_NAME, pod),
        namespace=labels.get(_POD_NAMESPACE, namespace),
        uid=labels.get(_POD_UID, uid),
    )
    return metadata if metadata.name and metadata.uid else None


def make_pod_labels(pod: PodSandboxMetadata) -> dict[str, str]:
    """The labels by which a kubelet finds the sandboxes of a pod."""
    return {_POD_NAME: pod.name, _POD_NAMESPACE: pod.namespace, _POD_UID: pod.uid}


def parse_container_config(labels: Mapping[str, str], engine_name: str, image: str) -> ContainerConfig | None:
    """The request that made the container (without its environment), or what the convention tells of it."""
    try:
        config = _container_config().validate_json(labels[CONFIG])
    except (KeyError, ValueError):
        pass
    else:
        if config.metadata is not None and config.metadata.name:
            return config
    name = parse_name(engine_name)
    container = labels.get(_CONTAINER_NAME, name[0] if name else "")
    if not container:
        return None
    user, annotations = _parse_convention(labels)
    return ContainerConfig(
        metadata=ContainerMetadata(name=container, attempt=name[4] if name else 0),
        image=ImageSpec(image=image),
        labels=user,
        annotations=annotations,
    )


def _convention(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    return {**labels, **{ANNOTATION + key: value for key, value in annotations.items()}}


def _parse_convention(labels: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    user = {k: v for k, v in labels.items() if not k.startswith(ANNOTATION) and k not in _OURS}
    annotations = {k.removeprefix(ANNOTATION): v for k, v in labels.items() if k.startswith(ANNOTATION)}
    return user, annotations
