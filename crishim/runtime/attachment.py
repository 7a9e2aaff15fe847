"""What the pod network is told of a sandbox; the same on ADD, CHECK and DEL, in this process and in a later one."""

from __future__ import annotations

from crishim.network.api import PodAttachment
from crishim.runtime.objects import Sandbox


def make_attachment(sandbox: Sandbox) -> PodAttachment:
    """Made of the record alone."""
    config = sandbox.record.config
    pod = sandbox.metadata
    return PodAttachment(
        sandbox_id=sandbox.id,
        netns_path=sandbox.record.netns_path,
        name=pod.name,
        namespace=pod.namespace,
        uid=pod.uid,
        annotations=config.annotations,
        port_mappings=config.port_mappings,
        dns=config.dns_config,
        cgroup_parent=config.linux.cgroup_parent if config.linux else "",
    )
