"""Who a new container's process is, where the image's account files decide (`crishim.runtime.spec.accounts`).

The engine's API shows files of containers only, not of images: the first container of an image that needs to know is
made twice. First with nothing but its labels, to be looked into and removed, then as asked. A crash between leaves a
leftover like any other, which its labels tell of. What was read is remembered: an image's content never changes.
"""

from __future__ import annotations

from contextlib import suppress

from crishim.aiokit.steps import step
from crishim.aiokit.undo import UndoStack
from crishim.engine.values import ContainerSpec, EngineImage
from crishim.errors import EngineNotFound
from crishim.model import LinuxContainerSecurityContext
from crishim.runtime.core import Runtime
from crishim.runtime.engine_create import create_named
from crishim.runtime.spec.accounts import GROUP, PASSWD, Accounts, needs_accounts, parse_accounts, with_identity

_REMEMBERED = 256
"""Images whose accounts are kept in memory."""


async def settle_identity(
    rt: Runtime,
    undo: UndoStack,
    name: str,
    spec: ContainerSpec,
    context: LinuxContainerSecurityContext,
    image: EngineImage,
) -> ContainerSpec:
    """The spec with user and groups as CRI means them.

    The caller has reserved `name`. Raises InvalidArgument for a user name that the image lacks, and the engine's
    errors; with `undo`, nothing is left then.
    """
    if not needs_accounts(context):
        return spec
    if (accounts := rt.accounts.get(image.id)) is None:
        accounts = await _read(rt, undo, name, spec)
        while len(rt.accounts) >= _REMEMBERED:
            del rt.accounts[next(iter(rt.accounts))]
        rt.accounts[image.id] = accounts
    return with_identity(spec, context, image.user, accounts, "config.linux.security_context")


async def _read(rt: Runtime, undo: UndoStack, name: str, spec: ContainerSpec) -> Accounts:
    async def remove(container_id: str) -> None:
        with suppress(EngineNotFound):
            await rt.link.engine.remove(container_id)

    bare = ContainerSpec(image=spec.image, labels=spec.labels, entrypoint=("never-started",), runtime=spec.runtime)
    container_id = await undo.effect("create to read accounts", create_named(rt, name, bare), remove)
    engine = rt.link.engine
    with step("engine read accounts", engine=True):
        passwd = await engine.read_file(container_id, PASSWD)
        group = await engine.read_file(container_id, GROUP)
    await remove(container_id)
    return parse_accounts(passwd, group)
