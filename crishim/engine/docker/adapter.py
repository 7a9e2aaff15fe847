"""DockerEngine: `crishim.engine.api.Engine` on the Docker Engine's HTTP API, one method a call."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError

from crishim.engine.api import Engine
from crishim.engine.docker import images
from crishim.engine.docker.attach import DockerAttachment
from crishim.engine.docker.connection import Connection
from crishim.engine.docker.create import container_body, update_body
from crishim.engine.docker.deadlines import Deadlines
from crishim.engine.docker.errors import guard
from crishim.engine.docker.events import query, read_events
from crishim.engine.docker.exec import DockerExec
from crishim.engine.docker.files import has_path, read_file
from crishim.engine.docker.foresee import foresee
from crishim.engine.docker.handshake import facts_from, negotiate, refuse_unsuitable
from crishim.engine.docker.logs import LogStream
from crishim.engine.docker.logs import query as log_query
from crishim.engine.docker.ndjson import JsonLines
from crishim.engine.docker.parse import container_from, listed_from
from crishim.engine.docker.pull import auth_header, pull_failure, pull_query, read_progress
from crishim.engine.docker.references import names_container, names_image
from crishim.engine.docker.terminal import detach_keys
from crishim.engine.values import (
    ContainerPhase,
    ContainerSpec,
    EngineContainer,
    EngineEvent,
    EngineFacts,
    EngineImage,
    EngineResources,
    ListedContainer,
    LogEntry,
    PullProgress,
    RegistryAuth,
)
from crishim.errors import (
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineTimeout,
    EngineUnavailable,
    ExecFailed,
    InvalidArgument,
    Kind,
)
from crishim.model.streams import TerminalSize, WantedStreams

_REMOVAL_LOOK = 5.0
"""Seconds after which a removal by someone else is looked at again: it may have failed without a word."""


class DockerEngine(Engine):
    """A Docker Engine on `unix:///path`. Raises EngineUnsuitable for any other endpoint.

    Needs a running loop from the first call on. Calls before a successful `connect` raise EngineUnavailable.
    """

    def __init__(self, endpoint: str, *, deadlines: Deadlines | None = None) -> None:
        self.endpoint = endpoint
        self._connection = Connection(endpoint)
        self._limits = deadlines or Deadlines()
        self._facts: EngineFacts | None = None

    def __repr__(self) -> str:
        return f"DockerEngine({self._connection!r})"

    @property
    def facts(self) -> EngineFacts | None:
        """What the last handshake told; None before the first."""
        return self._facts

    async def connect(self) -> EngineFacts:
        try:
            async with guard("handshake", self._limits.handshake):
                version = await self._connection.get("version")
                api = negotiate(version)
                pid = await self._connection.peer_pid()
                info = await self._connection.get(f"v{api[0]}.{api[1]}/info")
        except (EngineError, EngineTimeout) as error:
            # Whatever it said or did not say, it cannot be worked with now, and may be later.
            raise EngineUnavailable(error.message) from error
        refuse_unsuitable(version, info, pid, os.uname().release)
        self._connection.speak(api)
        self._facts = facts_from(version, info, api, pid)
        return self._facts

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[EngineEvent]]:
        async with AsyncExitStack() as stack:
            async with guard("events", self._limits.open_events):
                response = await stack.enter_async_context(self._connection.stream("GET", "events", params=query()))
            yield read_events(response)

    # --- Containers -------------------------------------------------------------------------------------------------

    async def create(self, name: str, spec: ContainerSpec) -> str:
        if self._facts is None:
            raise EngineUnavailable("the engine has not been reached yet")
        body = container_body(spec, self._facts)
        async with guard("create of a container", self._limits.create, name=name):
            container_id: str = (await self._connection.post("containers/create", body, {"name": name}))["Id"]
            return container_id

    def foresee(self, container_id: str, name: str, spec: ContainerSpec, image: EngineImage) -> EngineContainer:
        if self._facts is None:
            raise EngineUnavailable("the engine has not been reached yet")
        return foresee(container_id, name, spec, image, self._facts)

    async def start(self, container_id: str) -> None:
        container = self._container(container_id)
        try:
            async with guard("start of a container", self._limits.start, container=container_id):
                await container.start()  # 304: it runs already
        except EngineNotFound as error:
            # The engine says the same of a container whose network or IPC this one joins.
            await self.inspect(container_id)
            raise EngineError(error.message, kind=Kind.FAILED_PRECONDITION, container=container_id) from error

    async def kill(self, container_id: str, signal: str) -> None:
        container = self._container(container_id)
        try:
            async with guard("signal to a container", self._limits.kill, container=container_id):
                await container.kill(signal=signal)
        except EngineConflict:
            if (await self.inspect(container_id)).phase is ContainerPhase.RUNNING:
                raise

    async def wait(self, container_id: str) -> None:
        container = self._container(container_id)
        async with guard("wait for a container", None, container=container_id):
            answer = await container.wait(condition="not-running")
        if not answer:
            raise EngineUnavailable("wait for a container: the engine broke off", container=container_id)
        if answer.get("Error"):
            # It could not see the exit itself; what counts is whether the container runs.
            try:
                found = await self.inspect(container_id)
            except EngineNotFound:
                return
            if found.phase is ContainerPhase.RUNNING:
                raise EngineError(str(answer["Error"].get("Message")), kind=Kind.INTERNAL, container=container_id)

    async def remove(self, container_id: str) -> None:
        container = self._container(container_id)
        async with guard("removal of a container", self._limits.remove, container=container_id):
            while True:
                try:
                    async with guard("removal of a container", None, container=container_id):
                        return await container.delete(force=True, v=True)
                except EngineConflict:  # someone else is at it; no state in inspect tells of that reliably
                    try:
                        await self._wait_for_removal(container)
                    except EngineNotFound:
                        return None

    async def _wait_for_removal(self, container: DockerContainer) -> None:
        """Wait for a removal under way, but not for ever. EngineNotFound if it is done already."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_REMOVAL_LOOK), guard("wait for a removal", None, container=container.id):
                await container.wait(condition="removed")

    async def update(self, container_id: str, resources: EngineResources) -> None:
        path = f"containers/{self._container(container_id).id}/update"
        async with guard("update of a container", self._limits.update, container=container_id):
            await self._connection.post(path, update_body(resources))

    async def inspect(self, id_or_name: str) -> EngineContainer:
        container = self._container(id_or_name)
        async with guard("inspect of a container", self._limits.inspect, container=id_or_name):
            return container_from(await container.show(), self._facts.data_root if self._facts else "")

    async def read_file(self, container_id: str, path: str) -> bytes | None:
        key = self._container(container_id).id
        async with guard("reading of a file", self._limits.inspect, container=container_id):
            content = await read_file(self._connection, key, path)
        if content is None:
            await self.inspect(container_id)  # the engine says the same of a missing container
        return content

    async def has_path(self, container_id: str, path: str) -> bool:
        key = self._container(container_id).id
        async with guard("look for a path", self._limits.inspect, container=container_id):
            found = await has_path(self._connection, key, path)
        if not found:
            await self.inspect(container_id)  # the engine says the same of a missing container
        return found

    async def list_containers(self, labels: Mapping[str, str] | None = None, *, image: str = "") -> Sequence[str]:
        async with guard("list of containers", self._limits.list):
            rows = await self._rows(labels or {})
            # The engine's own filter by image counts images built upon it, too.
            return [row.id for row in rows if not image or row["ImageID"] == image]

    async def survey(self, labels: Mapping[str, str]) -> Sequence[ListedContainer]:
        async with guard("list of containers", self._limits.list):
            return [listed_from(row) for row in await self._rows(labels)]

    async def _rows(self, labels: Mapping[str, str]) -> Sequence[DockerContainer]:
        wanted = [f"{key}={value}" if value else key for key, value in labels.items()]
        return await self._connection.docker.containers.list(all=True, filters=json.dumps({"label": wanted}))

    def _container(self, id_or_name: str) -> DockerContainer:
        docker = self._connection.docker
        if not names_container(id_or_name):
            raise EngineNotFound(f"no container can be called {id_or_name!r}", container=id_or_name)
        return docker.containers.container(id_or_name)

    # --- Processes and streams --------------------------------------------------------------------------------------

    async def exec(self, container_id: str, command: Sequence[str], wanted: WantedStreams) -> DockerExec:
        container = self._container(container_id)
        if self._facts is None:
            raise EngineUnavailable("the engine has not been reached yet")
        body = {
            "Cmd": list(command),
            "Tty": wanted.tty,
            "AttachStdin": wanted.stdin,
            "AttachStdout": wanted.stdout,
            "AttachStderr": wanted.stderr,
            "DetachKeys": detach_keys(),
        }
        ids = {"container": container_id}
        try:
            async with guard("create of an exec", self._limits.create, **ids):
                exec_id = (await self._connection.post(f"containers/{container.id}/exec", body))["Id"]
        except (EngineNotFound, EngineConflict):
            raise
        except EngineError as error:  # newer engines look for the user at once
            raise ExecFailed(error.message, **ids) from error
        return DockerExec(
            self._connection, self._limits, self._facts, exec_id=exec_id, container_id=container_id, wanted=wanted
        )

    async def attach(
        self, container_id: str, wanted: WantedStreams, size: TerminalSize | None = None, *, ends_stdin: bool
    ) -> DockerAttachment:
        attachment = DockerAttachment(
            self._connection,
            self._limits,
            container_id=self._container(container_id).id,
            wanted=wanted,
            ends_stdin=ends_stdin,
            wait=self.wait,
            inspect=self.inspect,
        )
        try:
            await attachment.start(size)
        except BaseException:
            await attachment.close()
            raise
        return attachment

    @asynccontextmanager
    async def read_log(
        self, container_id: str, since: int, *, tty: bool
    ) -> AsyncIterator[AsyncIterator[Sequence[LogEntry]]]:
        path = f"containers/{self._container(container_id).id}/logs"
        async with AsyncExitStack() as stack:
            async with guard("log of a container", self._limits.open_events, container=container_id):
                answer = self._connection.stream("GET", path, params=log_query(since))
                response = await stack.enter_async_context(answer)
            yield LogStream(response, tty=tty)

    # --- Images -----------------------------------------------------------------------------------------------------

    async def list_images(self) -> Sequence[EngineImage]:
        return await images.list_images(self._connection.docker, self._limits.list)

    async def inspect_image(self, reference: str) -> EngineImage:
        docker = self._connection.docker
        return await images.inspect_image(docker, _image_name(reference), self._limits.inspect)

    @asynccontextmanager
    async def pull(self, reference: str, auth: RegistryAuth | None) -> AsyncIterator[AsyncIterator[PullProgress]]:
        if not names_image(reference):
            raise InvalidArgument(f"not a reference of an image: {reference!r}", image=reference)
        headers = auth_header(auth) if auth is not None else None
        async with AsyncExitStack() as stack:
            async with guard("pull", None, image=reference):
                answer = self._connection.stream("POST", "images/create", params=pull_query(reference), headers=headers)
                try:
                    response = await stack.enter_async_context(answer)
                except DockerError as error:
                    raise pull_failure(error.message, reference, error.status) from error
            yield read_progress(response, reference)

    async def remove_image(self, reference: str) -> None:
        docker = self._connection.docker
        await images.remove_image(docker, _image_name(reference), self._limits.remove_image)

    async def load_image(self, archive: bytes) -> None:
        # The engine's words on a bad archive come inside a stream whose status is 200, so it is read to its end.
        async with (
            guard("load of an image", self._limits.load),
            self._connection.stream(
                "POST",
                "images/load",
                params={"quiet": "1"},
                data=io.BytesIO(archive),
                headers={"Content-Type": "application/x-tar"},
            ) as response,
        ):
            async for line in JsonLines(response, "load of an image", lambda line: line):
                message = (line.get("errorDetail") or {}).get("message") or line.get("error")
                if message:
                    raise EngineError(str(message), kind=Kind.INVALID_ARGUMENT)

    async def close(self) -> None:
        await self._connection.close()


def _image_name(reference: str) -> str:
    if not names_image(reference):
        raise EngineNotFound(f"no image can be called {reference!r}", image=reference)
    return reference
