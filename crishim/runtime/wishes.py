"""What a front is told about a container: the engine's configuration with the container's wish carried out."""

from __future__ import annotations

from typing import Any

from crishim.errors import FrontFailed
from crishim.front.wire import Question
from crishim.runtime.front import Config, Edit
from crishim.runtime.index import Index
from crishim.runtime.oci.asked import make_wish
from crishim.runtime.oci.rewrite import rewrite, rewrite_process
from crishim.runtime.oci.wish import UnfitConfig, Wish


def edit_of(index: Index, question: Question) -> Edit | None:
    """What is to be done to the configuration that a front asks about; None where nothing was wished."""
    container = index.container(question.id)
    wish = make_wish(container.record) if container is not None else None
    if wish is None:
        return None
    return lambda config: _edit(config, question, wish)


def _edit(config: Config, question: Question, wish: Wish) -> dict[str, Any]:
    try:
        return rewrite_process(config, wish) if question.verb == "exec" else rewrite(config, wish)
    except UnfitConfig as error:
        # The container must not run without what was asked for.
        raise FrontFailed(f"the engine's configuration cannot be made what was asked: {error}") from error
