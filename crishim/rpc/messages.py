"""The index's objects as CRI messages. Pure: an object in, a message out."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.engine.values import EngineImage, EngineResources
from crishim.images.image_user import image_user
from crishim.model import ImageSpec, Signal
from crishim.rpc.encode import encode
from crishim.rpc.signals import parse_signal
from crishim.runtime.objects import Container, Sandbox
from crishim.runtime.oci.asked import asked_hugepages, asked_unified

DEFAULT_CPU_SHARES = 1024
"""The kernel's weight of a cgroup for which none was given."""
DEFAULT_CPU_PERIOD = 100_000
"""Microseconds: the kernel's CFS period for which a quota counts when none was given."""


def make_sandbox(sandbox: Sandbox) -> pb.PodSandbox:
    """An item of ListPodSandbox."""
    config = sandbox.record.config
    return pb.PodSandbox(
        id=sandbox.id,
        metadata=encode(sandbox.metadata, pb.PodSandboxMetadata()),
        state=pb.PodSandboxState.ValueType(sandbox.state),
        created_at=sandbox.record.created_at,
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=sandbox.record.runtime_handler,
    )


def make_sandbox_status(sandbox: Sandbox) -> pb.PodSandboxStatus:
    """The status of PodSandboxStatus.

    `network` stays unset where there is no address to tell: one with an empty `ip` makes a kubelet replace the pod for
    ever. `linux.namespaces.options` is always there, as asked.
    """
    config = sandbox.record.config
    status = pb.PodSandboxStatus(
        id=sandbox.id,
        metadata=encode(sandbox.metadata, pb.PodSandboxMetadata()),
        state=pb.PodSandboxState.ValueType(sandbox.state),
        created_at=sandbox.record.created_at,
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=sandbox.record.runtime_handler,
    )
    options = status.linux.namespaces.options
    options.SetInParent()
    encode(sandbox.namespaces, options)
    if ips := sandbox.ips:
        status.network.ip = ips[0]
        for ip in ips[1:]:
            status.network.additional_ips.add(ip=ip)
    return status


def make_container(container: Container) -> pb.Container:
    """An item of ListContainers."""
    config = container.record.config
    return pb.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        metadata=_container_metadata(container),
        image=_asked_image(container),
        image_ref=container.record.image_ref,
        image_id=container.record.image_ref,
        state=pb.ContainerState.ValueType(container.state),
        created_at=container.created_at,
        labels=config.labels,
        annotations=config.annotations,
    )


def make_container_status(container: Container) -> pb.ContainerStatus:
    """The status of ContainerStatus."""
    config = container.record.config
    status = pb.ContainerStatus(
        id=container.id,
        metadata=_container_metadata(container),
        state=pb.ContainerState.ValueType(container.state),
        created_at=container.created_at,
        started_at=container.started_at,
        finished_at=container.finished_at,
        exit_code=container.exit_code,
        image=_asked_image(container),
        image_ref=container.record.image_ref,
        image_id=container.record.image_ref,
        reason=container.reason,
        message=container.message,
        labels=config.labels,
        annotations=config.annotations,
        # Garbage collectors delete what stands here, so where no path was asked it is the engine's own file.
        log_path=container.log_path or container.live.log_path,
        resources=pb.ContainerResources(linux=_resources_in_force(container)),
        stop_signal=pb.Signal.ValueType(effective_stop_signal(container)),
    )
    for mount in config.mounts:
        encode(mount, status.mounts.add())
    if (user := container.user) is not None:
        linux = status.user.linux
        linux.SetInParent()
        linux.uid, linux.gid = user.uid, user.gid
        linux.supplemental_groups.extend(user.groups)
    return status


def effective_stop_signal(container: Container) -> Signal:
    """What StopContainer sends: as asked, else as the image says, else TERM."""
    asked = container.record.config.stop_signal
    if asked is Signal.SIGNAL_RUNTIME_DEFAULT:
        asked = parse_signal(container.live.stop_signal)
    return Signal.SIGNAL_SIGTERM if asked is Signal.SIGNAL_RUNTIME_DEFAULT else asked


def make_image(image: EngineImage, *, pinned: bool) -> pb.Image:
    """An image; exactly one of `uid` and `username` is set."""
    uid, username = image_user(image.user)
    return pb.Image(
        id=image.id,
        repo_tags=image.tags,
        repo_digests=image.digests,
        size=image.size,
        uid=None if uid is None else pb.Int64Value(value=uid),
        username=username,
        pinned=pinned,
    )


def _container_metadata(container: Container) -> pb.ContainerMetadata:
    return encode(container.record.config.metadata, pb.ContainerMetadata())


def _asked_image(container: Container) -> pb.ImageSpec:
    """The image as the user wrote it: a kubelet's request holds the id and, beside it, that name."""
    asked = container.record.config.image or ImageSpec()
    return pb.ImageSpec(
        image=asked.user_specified_image or asked.image,
        annotations=asked.annotations,
        user_specified_image=asked.user_specified_image,
    )


def _resources_in_force(container: Container) -> pb.LinuxContainerResources:
    """What is enforced; 0 where nothing is limited. A quota and its period go together."""
    live: EngineResources = container.live.resources
    quota = max(live.cpu_quota or 0, 0)
    return pb.LinuxContainerResources(
        cpu_shares=live.cpu_shares or DEFAULT_CPU_SHARES,
        cpu_quota=quota,
        cpu_period=(live.cpu_period or DEFAULT_CPU_PERIOD) if quota else 0,
        memory_limit_in_bytes=max(live.memory or 0, 0),
        memory_swap_limit_in_bytes=max(live.memory_swap or 0, 0),
        cpuset_cpus=live.cpuset_cpus or "",
        cpuset_mems=live.cpuset_mems or "",
        oom_score_adj=container.oom_score_adj,
        hugepage_limits=[encode(limit, pb.HugepageLimit()) for limit in asked_hugepages(container.record)],
        unified=asked_unified(container.record),
    )
