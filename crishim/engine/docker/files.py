"""A file out of a container that need not run: `GET /containers/{id}/archive`, which answers with a tar."""

from __future__ import annotations

import io
import posixpath
import tarfile

from aiodocker.exceptions import DockerError

from crishim.engine.docker.connection import Connection
from crishim.errors import EngineError, Kind

LARGEST = 4 << 20
"""Bytes of a file; the account files that are read have a few kilobytes."""
_MOST_LINKS = 8
_NOT_FOUND = 404  # the file's, or the container's
_HEADERS = 64 << 10
"""Bytes of a tar before a file's content: long names and extended attributes come in blocks of their own."""


async def read_file(connection: Connection, container_id: str, path: str) -> bytes | None:
    """The file's content; None where there is no regular one. Call it inside `errors.guard`."""
    for _ in range(_MOST_LINKS):
        try:
            member, content = await _fetch(connection, container_id, path)
        except DockerError as error:
            if error.status != _NOT_FOUND:
                raise
            return None
        if member is None or not member.issym():
            return content
        path = posixpath.normpath(posixpath.join("/", posixpath.dirname(path), member.linkname))
    return None


async def has_path(connection: Connection, container_id: str, path: str) -> bool:
    """Whether something is there; False also without such a container. Call it inside `errors.guard`."""
    try:
        async with connection.stream("HEAD", f"containers/{container_id}/archive", params={"path": path}):
            return True
    except DockerError as error:
        if error.status != _NOT_FOUND:
            raise
        return False


async def _fetch(connection: Connection, container_id: str, path: str) -> tuple[tarfile.TarInfo | None, bytes | None]:
    """What the engine packs first, and its content if it is a regular file."""
    data = bytearray()
    async with connection.stream("GET", f"containers/{container_id}/archive", params={"path": path}) as response:
        async for chunk in response.content.iter_any():
            data += chunk
            if len(data) > LARGEST + _HEADERS:
                break  # a folder's content may follow; what counts comes first
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|") as archive:
        member = archive.next()
        if member is None or not member.isreg():
            return member, None
        if member.size > LARGEST:
            raise EngineError(f"{path} has {member.size} bytes", kind=Kind.RESOURCE_EXHAUSTED, container=container_id)
        file = archive.extractfile(member)
        return member, file.read() if file is not None else None
