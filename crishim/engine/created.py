"""How every engine shows a container that was just created by a request and an image."""

from __future__ import annotations

from crishim.engine.values import ContainerPhase, ContainerSpec, EngineContainer, EngineImage


def show_created(
    container_id: str, name: str, spec: ContainerSpec, image: EngineImage, *, created_at: int, default_runtime: str
) -> EngineContainer:
    """What follows from the two; what an engine adds of its own (paths, defaults of resources) is not in it."""
    given = dict(spec.env)
    inherited = (entry for entry in image.env if entry.partition("=")[0] not in given)
    return EngineContainer(
        id=container_id,
        name=name,
        image_id=image.id,
        image=spec.image,
        phase=ContainerPhase.CREATED,
        created_at=created_at,
        labels={**image.labels, **spec.labels},
        log_driver="json-file",
        network_mode=spec.network_mode,
        ipc_mode=spec.ipc_mode,
        pid_mode=spec.pid_mode,
        runtime=spec.runtime or default_runtime,
        cgroup_parent=spec.cgroup_parent,
        user=spec.user or image.user,
        tty=spec.tty,
        stdin=spec.stdin,
        stdin_once=spec.stdin_once,
        privileged=spec.privileged,
        stop_signal=spec.stop_signal or image.stop_signal,
        env=(*(f"{key}={value}" for key, value in spec.env), *inherited),
        entrypoint=spec.entrypoint or image.entrypoint,
        # With an entrypoint of the request's, the image's command does not count.
        command=spec.command or (() if spec.entrypoint else image.command),
        working_dir=spec.working_dir or image.working_dir,
        mounts=spec.mounts,
        resources=spec.resources,
        oom_score_adj=spec.oom_score_adj,
    )
