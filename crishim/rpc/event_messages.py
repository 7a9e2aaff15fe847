"""An event as CRI message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.events.event import Event
from crishim.rpc.framing import field
from crishim.rpc.messages import make_sandbox_status

if TYPE_CHECKING:
    from crishim.rpc.ready import ReadyContainers, ReadySandboxes

_SANDBOX = pb.ContainerEventResponse.POD_SANDBOX_STATUS_FIELD_NUMBER
_CONTAINERS = pb.ContainerEventResponse.CONTAINERS_STATUSES_FIELD_NUMBER


def encode_event(event: Event, sandboxes: ReadySandboxes, containers: ReadyContainers) -> bytes:
    """An event with its pod's statuses, out of ready bytes.

    Of a sandbox that was deleted none are kept: what was asked of the stores after its end would stay there.
    """
    head = pb.ContainerEventResponse(
        container_id=event.object_id,
        container_event_type=pb.ContainerEventType.ValueType(event.kind),
        created_at=event.created_at,
    )
    sandbox = event.sandbox
    status = sandboxes.status(sandbox) if event.sandbox_listed else make_sandbox_status(sandbox).SerializeToString()
    parts = [head.SerializeToString(), field(_SANDBOX, status)]
    parts += (field(_CONTAINERS, containers.status(container)) for container in event.containers)
    return b"".join(parts)
