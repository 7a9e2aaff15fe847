"""The RPCs that ask about the node: Version, Status, RuntimeConfig, UpdateRuntimeConfig."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.info import to_json
from crishim.rpc.served import Served
from crishim.runtime import node_status

KUBELET_API_VERSION = "0.1.0"
"""What CRI's Version answers as `version`: the kubelet's own word for the interface, unchanged since its beginning."""
API_VERSION = "v1"


async def version(served: Served, request: pb.VersionRequest) -> pb.VersionResponse:
    """Version; answers from what was last known while the engine is away."""
    info = node_status.version(served.runtime)
    return pb.VersionResponse(
        version=KUBELET_API_VERSION,
        runtime_name=info.runtime_name,
        runtime_version=info.runtime_version,
        runtime_api_version=API_VERSION,
    )


async def status(served: Served, request: pb.StatusRequest) -> pb.StatusResponse:
    """Status: conditions with their reasons, handlers and features."""
    told = node_status.node_status(served.runtime)
    answer = pb.StatusResponse(
        features=pb.RuntimeFeatures(
            supplemental_groups_policy=told.supplemental_groups_policy,
            user_namespaces_host_network=told.user_namespaces_host_network,
            mount_options=told.mount_options,
        )
    )
    for condition in told.conditions:
        answer.status.conditions.add(
            type=condition.type, status=condition.status, reason=condition.reason, message=condition.message
        )
    for handler in told.handlers:
        answer.runtime_handlers.add(
            name=handler.name,
            features=pb.RuntimeHandlerFeatures(
                recursive_read_only_mounts=handler.recursive_read_only_mounts,
                user_namespaces=handler.user_namespaces,
            ),
        )
    if request.verbose:
        answer.info.update({name: to_json(value) for name, value in told.info.items()})
    return answer


async def runtime_config(served: Served, request: pb.RuntimeConfigRequest) -> pb.RuntimeConfigResponse:
    """RuntimeConfig. An unknown driver leaves `linux` unset: zero is SYSTEMD, and a kubelet asks only once."""
    driver = node_status.runtime_config(served.runtime)
    if driver is None:
        return pb.RuntimeConfigResponse()
    return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CgroupDriver.ValueType(driver)))


async def update_runtime_config(
    served: Served, request: pb.UpdateRuntimeConfigRequest
) -> pb.UpdateRuntimeConfigResponse:
    """UpdateRuntimeConfig; an empty range is ignored."""
    if cidr := request.runtime_config.network_config.pod_cidr:
        node_status.set_pod_cidr(served.runtime, cidr)
    return pb.UpdateRuntimeConfigResponse()
