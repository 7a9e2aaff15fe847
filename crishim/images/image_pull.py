"""PullImage: one pull for all who ask for the same, ended when it no longer moves or nobody waits for it any more."""

from __future__ import annotations

import asyncio

from crishim.aiokit.steps import step
from crishim.engine.values import EngineImage, PullProgress, RegistryAuth
from crishim.errors import CRIError, EngineTimeout, ImageNotFound, RegistryUnavailable, UnknownRuntimeHandler
from crishim.images.core import ImageRoom, ImageSettings
from crishim.images.reference import Reference, parse_reference, shorten
from crishim.images.registry_auth import make_registry_auth
from crishim.model import AuthConfig, ImageSpec

_ENGINE_STAGES = frozenset({"Verifying Checksum", "Extracting"})
"""Stages in which the engine, not the registry, is at work on a layer."""


async def pull(room: ImageRoom, spec: ImageSpec, auth: AuthConfig | None) -> EngineImage:
    """Pull by tag, digest or both (then the digest decides); neither means `latest`.

    Whoever asks for the same reference with the same credentials meanwhile waits for the same pull; it is stopped when
    the last of them has gone. Raises InvalidArgument (an id, a bad name, bad credentials), UnknownRuntimeHandler, what
    `Engine.pull` raises, RegistryUnavailable or EngineTimeout for one that no longer moves.
    """
    reference = parse_reference(spec.image)
    if spec.runtime_handler and spec.runtime_handler not in room.handlers():
        raise UnknownRuntimeHandler(f"image.runtime_handler: the engine has no {shorten(spec.runtime_handler)}")
    credentials = make_registry_auth(auth, reference)
    return await room.pulls.join(
        (str(reference), credentials), lambda: _pull(room, reference, credentials), name=f"pull {reference}"
    )


async def _pull(room: ImageRoom, reference: Reference, credentials: RegistryAuth | None) -> EngineImage:
    engine = room.get_engine()
    watch = _Watch(room.settings)
    try:
        with step("engine pull image", engine=True):
            async with watch.limit() as deadline, engine.pull(str(reference), credentials) as stream:
                async for progress in stream:
                    if watch.moved(progress):
                        deadline.reschedule(watch.next_deadline())
    except TimeoutError as error:
        raise watch.stalled(reference) from error
    # By the name that was asked for, not by what the stream says: this is what the tag means now.
    if (image := await room.look(str(reference))) is None:
        raise ImageNotFound(f"image {reference} was pulled, and removed at once by somebody", image=str(reference))
    return image


class _Watch:
    """Tells a pull that moves from one that does not.

    Engines repeat the last line of a layer several times a second whether or not a byte arrived, so that only a change
    of a layer's stage or count is progress.
    """

    def __init__(self, settings: ImageSettings) -> None:
        self._settings = settings
        self._layers: dict[str, PullProgress] = {}

    def limit(self) -> asyncio.Timeout:
        """The deadline around the whole pull, its beginning included."""
        return asyncio.timeout_at(self.next_deadline())

    def moved(self, progress: PullProgress) -> bool:
        """Note a line; False if it only repeats the layer's last one."""
        if self._layers.get(progress.layer) == progress:
            return False
        self._layers[progress.layer] = progress
        return True

    def next_deadline(self) -> float | None:
        """The loop's time by which something must have moved, None for no limit."""
        limit = self._settings.pull_work_limit if self._engine_works() else self._settings.pull_stall_limit
        return asyncio.get_running_loop().time() + limit if limit else None

    def stalled(self, reference: Reference) -> CRIError:
        """The error for a pull that stopped moving; whose fault it is follows from where it stands."""
        at = ", ".join(sorted({p.stage for p in self._layers.values() if p.stage})) or "no answer yet"
        if self._engine_works():
            limit = self._settings.pull_work_limit
            return EngineTimeout(f"pull of {reference} made no progress for {limit:g} s ({at})", image=str(reference))
        limit = self._settings.pull_stall_limit
        return RegistryUnavailable(f"pull of {reference} made no progress for {limit:g} s ({at})", image=str(reference))

    def _engine_works(self) -> bool:
        return any(progress.stage in _ENGINE_STAGES for progress in self._layers.values())
