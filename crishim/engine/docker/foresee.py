"""What the engine will tell of a container that it has just made: known from the request and the image.

To ask takes as long as all of our own part of a creation, and tells nothing new but paths and the time.
"""

from __future__ import annotations

import time

from crishim.engine.docker.create import limits_of_new
from crishim.engine.docker.parse import log_path_of_new, resources_from
from crishim.engine.values import ContainerPhase, ContainerSpec, EngineContainer, EngineFacts, EngineImage


def foresee(
    container_id: str, name: str, spec: ContainerSpec, image: EngineImage, facts: EngineFacts
) -> EngineContainer:
    """The container as `GET /containers/{id}/json` will show it."""
    given = dict(spec.env)
    inherited = [entry for entry in image.env if entry.partition("=")[0] not in given]
    return EngineContainer(
        id=container_id,
        name=name,
        image_id=image.id,
        image=spec.image,
        phase=ContainerPhase.CREATED,
        created_at=time.time_ns(),
        labels={**image.labels, **spec.labels},
        log_path=log_path_of_new(container_id, facts.data_root),
        log_driver="json-file",
        network_mode=spec.network_mode,
        ipc_mode=spec.ipc_mode,
        pid_mode=spec.pid_mode,
        runtime=spec.runtime or facts.default_runtime,
        cgroup_parent=spec.cgroup_parent,
        user=spec.user or image.user,
        tty=spec.tty,
        stdin=spec.stdin,
        stdin_once=spec.stdin_once,
        privileged=spec.privileged,
        stop_signal=spec.stop_signal or image.stop_signal,
        env=tuple([f"{key}={value}" for key, value in spec.env] + inherited),
        entrypoint=spec.entrypoint or image.entrypoint,
        # With an entrypoint of the request's, the image's command does not count.
        command=spec.command or (() if spec.entrypoint else image.command),
        working_dir=spec.working_dir or image.working_dir,
        mounts=spec.mounts,
        resources=resources_from(limits_of_new(spec, facts)),
        oom_score_adj=spec.oom_score_adj,
    )
