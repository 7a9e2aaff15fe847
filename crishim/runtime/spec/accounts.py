"""Who an image says that users and groups are: its /etc/passwd and /etc/group, read as the engine reads them.

The engine merges the image's groups into a process's only where the request names no group (`user`, not `user:group`).
CRI has a policy of its own for that (`SupplementalGroupsPolicy`): where the two differ, groups are told by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from crishim.engine.values import ContainerSpec
from crishim.errors import InvalidArgument
from crishim.model import LinuxContainerSecurityContext, SupplementalGroupsPolicy

PASSWD, GROUP = "/etc/passwd", "/etc/group"


@dataclass(frozen=True, slots=True)
class User:
    """A line of /etc/passwd, as far as it matters here."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Group:
    """A line of /etc/group."""

    name: str
    gid: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Accounts:
    """The account files of an image; empty where it has none."""

    users: tuple[User, ...] = ()
    groups: tuple[Group, ...] = ()

    def user(self, wanted: str) -> User | None:
        """The first user of this name or, written in digits, of this id."""
        uid = int(wanted) if wanted.isdecimal() else None
        return next((user for user in self.users if user.name == wanted or user.uid == uid), None)

    def groups_of(self, user: User | None) -> tuple[int, ...]:
        """Ids of the groups that list the user as a member."""
        return tuple(group.gid for group in self.groups if user is not None and user.name in group.members)


def parse_accounts(passwd: bytes | None, group: bytes | None) -> Accounts:
    """The account files' content; None: there is no such file. Lines that are none are left out."""
    users = [
        User(parts[0], int(parts[2]), int(parts[3]))
        for parts in _lines(passwd, 4)
        if parts[2].isdecimal() and parts[3].isdecimal()
    ]
    groups = [
        Group(parts[0], int(parts[2]), tuple(parts[3].split(",")) if parts[3] else ())
        for parts in _lines(group, 4)
        if parts[2].isdecimal()
    ]
    return Accounts(tuple(users), tuple(groups))


def _lines(content: bytes | None, fields: int) -> Iterator[list[str]]:
    for line in (content or b"").decode(errors="surrogateescape").splitlines():
        parts = [part.strip() for part in line.strip().split(":")]
        if len(parts) >= fields and not line.lstrip().startswith("#"):
            yield parts


def needs_accounts(context: LinuxContainerSecurityContext) -> bool:
    """Whether the image's account files decide who the process is, beyond what the engine does by itself."""
    if context.run_as_username:
        return True  # it must exist, and the engine would only miss it at the start
    if context.supplemental_groups_policy is SupplementalGroupsPolicy.Strict:
        return context.run_as_group is None  # else there is nothing to find out: the engine merges none
    return context.run_as_group is not None


def with_identity(
    spec: ContainerSpec, context: LinuxContainerSecurityContext, image_user: str, accounts: Accounts, field: str
) -> ContainerSpec:
    """The spec with user and groups as CRI means them. Raises InvalidArgument for a user name that the image lacks.

    Strict: the user's own group is named, then the engine merges none. Merge with a group that is named: the groups
    that the image's /etc/group has for the user are added.
    """
    name = context.run_as_username
    if name and accounts.user(name) is None:
        raise InvalidArgument(f"the image has no user {name!r}", field=f"{field}.run_as_username")
    wanted, _, named_group = (spec.user or image_user or "0").partition(":")
    user = accounts.user(wanted)
    if context.supplemental_groups_policy is SupplementalGroupsPolicy.Strict:
        own = str(user.gid if user is not None else 0)
        return replace(spec, user=f"{wanted}:{named_group or own}")
    if not named_group or context.run_as_group is None:
        return spec
    return replace(spec, groups=tuple(dict.fromkeys((*spec.groups, *accounts.groups_of(user)))))
