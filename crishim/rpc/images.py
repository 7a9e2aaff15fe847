"""The RPCs of ImageService. Each decodes, calls one verb, and encodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.model import AuthConfig, ImageFilter, ImageSpec
from crishim.rpc.decode import decode_field
from crishim.rpc.framing import field
from crishim.rpc.info import image_info
from crishim.rpc.required import need_field
from crishim.rpc.served import Served

if TYPE_CHECKING:
    from crishim.images.image_fs import FilesystemUse

_IMAGE = pb.ImageStatusResponse.IMAGE_FIELD_NUMBER


async def list_all(served: Served, request: pb.ListImagesRequest) -> bytes:
    """ListImages, from ready bytes."""
    served.runtime.link.need_loaded()
    return served.images.items(decode_field(request, "filter", ImageFilter) or ImageFilter())


async def status(served: Served, request: pb.ImageStatusRequest) -> bytes:
    """ImageStatus, from ready bytes; an image that is not there is an empty answer, not an error."""
    image = await served.runtime.images.status(need_field(request, "image", ImageSpec))
    if image is None:
        return b""
    answer = field(_IMAGE, served.images.status(image))
    if request.verbose:
        answer += pb.ImageStatusResponse(info=image_info(image)).SerializeToString()
    return answer


async def pull(served: Served, request: pb.PullImageRequest) -> pb.PullImageResponse:
    """PullImage; answers the id under which every other RPC speaks of the image.

    `sandbox_config` is for runtimes that pull into a sandbox; the engine pulls for the node.
    """
    spec = need_field(request, "image", ImageSpec)
    image_id = await served.runtime.images.pull(spec, decode_field(request, "auth", AuthConfig))
    return pb.PullImageResponse(image_ref=image_id)


async def remove(served: Served, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
    """RemoveImage."""
    await served.runtime.images.remove(need_field(request, "image", ImageSpec))
    return pb.RemoveImageResponse()


async def fs_info(served: Served, request: pb.ImageFsInfoRequest) -> pb.ImageFsInfoResponse:
    """ImageFsInfo; a kubelet ends when it fails at its start, so it answers from what is known."""
    info = await served.runtime.images.fs_info()
    return pb.ImageFsInfoResponse(
        image_filesystems=[_usage(info.image)], container_filesystems=[_usage(info.containers)]
    )


def _usage(usage: FilesystemUse) -> pb.FilesystemUsage:
    return pb.FilesystemUsage(
        timestamp=usage.timestamp,
        fs_id=pb.FilesystemIdentifier(mountpoint=usage.mountpoint),
        used_bytes=pb.UInt64Value(value=usage.used_bytes),
        inodes_used=pb.UInt64Value(value=usage.inodes_used),
    )
