"""What the engine will tell of a container that it has just made: known from the request and the image.

To ask takes as long as all of our own part of a creation, and tells nothing new but paths and the time.
"""

from __future__ import annotations

import time
from dataclasses import replace

from crishim.engine.created import show_created
from crishim.engine.docker.create import limits_of_new
from crishim.engine.docker.parse import log_path_of_new, resources_from
from crishim.engine.values import ContainerSpec, EngineContainer, EngineFacts, EngineImage


def foresee(
    container_id: str, name: str, spec: ContainerSpec, image: EngineImage, facts: EngineFacts
) -> EngineContainer:
    """The container as `GET /containers/{id}/json` will show it."""
    shown = show_created(
        container_id, name, spec, image, created_at=time.time_ns(), default_runtime=facts.default_runtime
    )
    return replace(
        shown,
        log_path=log_path_of_new(container_id, facts.data_root),
        resources=resources_from(limits_of_new(spec, facts)),
    )
