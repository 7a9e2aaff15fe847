"""All RPCs of CRI v1: name → service and handler. A handler decodes, calls one verb, and encodes.

That of an RPC which answers with a stream returns an iterator over the stream's messages, each encoded.

A handler of None stands for an RPC that this version does not carry out: it answers UNIMPLEMENTED with its name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc import containers, events, images, metrics, node, sandboxes, stats, streamed, streams
from crishim.rpc.chunks import Stream
from crishim.rpc.served import Served

Answer = Message | bytes | Stream
"""A response, its ready bytes, or those of a stream's messages."""
Handler = Callable[[Served, Any], Awaitable[Answer]]
"""Takes the request that the descriptor names for the RPC."""

RUNTIME = pb.DESCRIPTOR.services_by_name["RuntimeService"].full_name
IMAGES = pb.DESCRIPTOR.services_by_name["ImageService"].full_name

TABLE: Mapping[str, tuple[str, Handler | None]] = {
    # the node
    "Version": (RUNTIME, node.version),
    "Status": (RUNTIME, node.status),
    "RuntimeConfig": (RUNTIME, node.runtime_config),
    "UpdateRuntimeConfig": (RUNTIME, node.update_runtime_config),
    # pod sandboxes
    "RunPodSandbox": (RUNTIME, sandboxes.run),
    "StopPodSandbox": (RUNTIME, sandboxes.stop),
    "RemovePodSandbox": (RUNTIME, sandboxes.remove),
    "PodSandboxStatus": (RUNTIME, sandboxes.status),
    "ListPodSandbox": (RUNTIME, sandboxes.list_all),
    "StreamPodSandboxes": (RUNTIME, streamed.sandboxes),
    "UpdatePodSandboxResources": (RUNTIME, sandboxes.update_resources),
    "PortForward": (RUNTIME, streams.port_forward),
    # containers
    "CreateContainer": (RUNTIME, containers.create),
    "StartContainer": (RUNTIME, containers.start),
    "StopContainer": (RUNTIME, containers.stop),
    "RemoveContainer": (RUNTIME, containers.remove),
    "ListContainers": (RUNTIME, containers.list_all),
    "StreamContainers": (RUNTIME, streamed.containers),
    "ContainerStatus": (RUNTIME, containers.status),
    "UpdateContainerResources": (RUNTIME, containers.update_resources),
    "ReopenContainerLog": (RUNTIME, containers.reopen_log),
    "ExecSync": (RUNTIME, streams.exec_sync),
    "Exec": (RUNTIME, streams.exec_),
    "Attach": (RUNTIME, streams.attach),
    # statistics, metrics, events
    "ContainerStats": (RUNTIME, stats.container),
    "ListContainerStats": (RUNTIME, stats.containers),
    "StreamContainerStats": (RUNTIME, streamed.container_stats),
    "PodSandboxStats": (RUNTIME, stats.pod),
    "ListPodSandboxStats": (RUNTIME, stats.pods),
    "StreamPodSandboxStats": (RUNTIME, streamed.pod_stats),
    "ListMetricDescriptors": (RUNTIME, metrics.descriptors),
    "ListPodSandboxMetrics": (RUNTIME, metrics.pods),
    "StreamPodSandboxMetrics": (RUNTIME, metrics.stream),
    "GetContainerEvents": (RUNTIME, events.listen),
    # checkpoint and restore of processes
    "CheckpointContainer": (RUNTIME, None),
    "CheckpointPod": (RUNTIME, None),
    "RestorePod": (RUNTIME, None),
    # images
    "ListImages": (IMAGES, images.list_all),
    "StreamImages": (IMAGES, streamed.images),
    "ImageStatus": (IMAGES, images.status),
    "PullImage": (IMAGES, images.pull),
    "RemoveImage": (IMAGES, images.remove),
    "ImageFsInfo": (IMAGES, images.fs_info),
}
