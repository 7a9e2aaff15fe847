"""`ImageRoom`: what the image verbs may use, and how they reach the engine: every call in a timed step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crishim.aiokit.background import Background
from crishim.aiokit.locks import KeyedLocks
from crishim.aiokit.shared import SharedWork
from crishim.aiokit.steps import step
from crishim.engine.api import Engine
from crishim.engine.values import EngineFacts, EngineImage
from crishim.errors import EngineNotFound
from crishim.images.index import ImageIndex


@dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """The part of the configuration that image verbs read."""

    sandbox_image: str = ""
    """Reference of the sandbox image; empty: the one that is part of the package."""
    sandbox_image_credentials: Path | None = None
    """File in the form of docker's config.json with credentials for the sandbox image."""
    pull_stall_limit: float = 60.0
    """Seconds a pull may go without a sign of progress from the registry; 0: for ever."""
    pull_work_limit: float = 600.0
    """The same while the engine verifies or unpacks a layer, which it may do without a word; 0: for ever."""


@dataclass(frozen=True, kw_only=True)
class ImageRoom:
    """Collaborators of the image verbs. Nothing here decides anything."""

    get_engine: Callable[[], Engine]
    """Raises EngineUnavailable while the engine is away."""
    background: Background
    settings: ImageSettings = field(default_factory=ImageSettings)
    used_by: Callable[[str], Sequence[str]] = lambda image_id: ()
    """Ids of our containers and sandboxes that were made from an image, by its id."""
    handlers: Callable[[], Collection[str]] = tuple
    """Names of the runtime handlers that are known; the default one, "", need not be among them."""
    facts: Callable[[], EngineFacts | None] = lambda: None
    """What the engine last said of itself, also while it is away; None if it was never reached."""
    """Credentials for pulling a configured sandbox image."""
    index: ImageIndex = field(default_factory=ImageIndex)
    removals: KeyedLocks = field(default_factory=KeyedLocks)
    """One per image id that is being removed."""
    pulls: SharedWork[EngineImage] = field(default_factory=SharedWork)
    loads: SharedWork[EngineImage] = field(default_factory=SharedWork)
    holds: dict[str, int] = field(default_factory=dict)
    """Image id to the number of containers that are being made from it at this moment."""

    async def look(self, reference: str) -> EngineImage | None:
        """Ask the engine for one image and put the answer into the index; None: the engine has none.

        Also None if the image was removed while the answer was on its way.
        """
        engine = self.get_engine()
        with self.index.reading() as asked:
            try:
                with step("engine inspect image", engine=True):
                    image = await engine.inspect_image(reference)
            except EngineNotFound:
                self.index.drop(reference, asked)  # a name is not in there by itself: only an id is dropped
                return None
            return self.index.put(image, asked)

    @contextmanager
    def hold(self, image_id: str) -> Iterator[None]:
        """Let no removal of the image begin inside the block: a container is being made from it."""
        self.holds[image_id] = self.holds.get(image_id, 0) + 1
        try:
            yield
        finally:
            self.holds[image_id] -= 1
            if not self.holds[image_id]:
                del self.holds[image_id]
