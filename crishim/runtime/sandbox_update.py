"""UpdatePodSandboxResources: remembered, not enforced: the kubelet writes the pod's cgroup itself."""

from __future__ import annotations

from dataclasses import replace

from crishim.checkpoint.record import SandboxRecord
from crishim.model import LinuxContainerResources
from crishim.runtime.core import Runtime


async def update_pod_sandbox_resources(
    rt: Runtime,
    sandbox_id: str,
    overhead: LinuxContainerResources | None,
    resources: LinuxContainerResources | None,
) -> None:
    """Record overhead and resources of a pod (resources exclude overhead); success for every known sandbox.

    Raises SandboxNotFound. An error of any other kind would make the kubelet refuse the pod's resize.
    """
    rt.link.need_loaded()
    sandbox = rt.index.need_sandbox(sandbox_id)

    def change(record: SandboxRecord) -> SandboxRecord:
        return replace(record, overhead=overhead or record.overhead, resources=resources or record.resources)

    await rt.records.change(sandbox.id, change)
