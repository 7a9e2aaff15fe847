"""What a front is told about a container: the engine's configuration with the container's wish carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crishim.checkpoint.record import Phase
from crishim.errors import FrontFailed
from crishim.front import idmap
from crishim.front.wire import Question
from crishim.runtime.anchored.carrier import shares_processes
from crishim.runtime.anchored.pod import with_pod
from crishim.runtime.anchored.shifted import place_of, with_shifted
from crishim.runtime.front import Config, Edit, SlowEdit
from crishim.runtime.index import Index
from crishim.runtime.objects import Sandbox
from crishim.runtime.oci.asked import make_wish
from crishim.runtime.oci.rewrite import rewrite, rewrite_process
from crishim.runtime.oci.wish import UnfitConfig, Wish


def edit_of(index: Index, question: Question, folder: Callable[[str], str] | None = None) -> Edit | None:
    """What is to be done to the configuration that a front asks about; None where nothing was wished.

    `folder`: gives that of an anchored pod by its id. Raises FrontFailed for the start of a container whose pod has
    ended.
    """
    container = index.container(question.id)
    if container is None and folder is not None and (pod := _pod_of_process(index, question)) is not None:
        if not pod.held or pod.record.phase not in (Phase.CREATING, Phase.READY):
            raise FrontFailed(f"its pod, {pod.id[:13]}, is not ready", sandbox=pod.id)
        return _made(question, with_pod(None, pod.record, (), folder(pod.id)), folder(pod.id))
    wish = make_wish(container.record) if container is not None else None
    sandbox = index.sandbox(container.sandbox_id) if container is not None else None
    if container is not None and question.verb == "create" and (sandbox is None or not sandbox.ready):
        # Also one of which nothing tells any more that it was anchored: its containers would lack its namespaces.
        raise FrontFailed(f"its pod, {container.sandbox_id[:13]}, is not ready", container=container.id)
    if container is not None and sandbox is not None and sandbox.anchored and folder is not None:
        wish = with_pod(wish, sandbox.record, container.record.config.mounts, folder(sandbox.id))
    if wish is None:
        return None
    return _made(question, wish, folder(sandbox.id) if sandbox is not None and folder is not None else "")


def _pod_of_process(index: Index, question: Question) -> Sandbox | None:
    """The anchored pod whose process it is that is to start."""
    if question.verb != "create":
        return None
    pods = (s for s in index.sandboxes() if s.anchored and s.object_id == question.id)
    return next((s for s in pods if shares_processes(s.record.config)), None)


def _made(question: Question, wish: Wish, folder: str) -> Edit:
    if wish.id_mappings is not None and question.verb == "create" and folder:
        place = place_of(folder, question.id)
        return SlowEdit(
            lambda config: with_shifted(_edit(config, question, wish), wish, place), lambda: idmap.release(place)
        )
    return lambda config: _edit(config, question, wish)


def _edit(config: Config, question: Question, wish: Wish) -> dict[str, Any]:
    try:
        return rewrite_process(config, wish) if question.verb == "exec" else rewrite(config, wish)
    except UnfitConfig as error:
        # The container must not run without what was asked for.
        raise FrontFailed(f"the engine's configuration cannot be made what was asked: {error}") from error
