"""What a process may do: users, groups, capabilities, seccomp, AppArmor, SELinux (CRI security contexts)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import Capability, ProfileType, SecurityProfile, SELinuxOption
from crishim.runtime.oci.capabilities import KNOWN, asked_ambient, full_name, without_dropped
from crishim.runtime.oci.wish import ALL
from crishim.runtime.spec.seccomp_profile import read_profile
from crishim.runtime.spec.ways import Beyond, Ways

_HIGHEST_ID = 2**31 - 1  # the kernel has more, but no engine starts a process with one of those
LOADED_APPARMOR = Path("/sys/kernel/security/apparmor/profiles")
"""The profiles that the kernel has, a line `NAME (MODE)` for each; for root only."""
_RUNTIME_DEFAULT, _UNCONFINED, _LOCALHOST = "runtime/default", "unconfined", "localhost/"


def make_user(
    uid: int | None, gid: int | None, username: str, field: str, *, forms: tuple[str, str] = ("run_as_user", "")
) -> str:
    """The engine's `user[:group]`; empty: the image's. `forms` names the fields for user and name in errors."""
    if uid is not None and username:
        raise InvalidArgument("a user id and a user name exclude each other", field=f"{field}.{forms[1]}")
    if ":" in username:
        raise InvalidArgument(f"{username!r} is not a user name", field=f"{field}.{forms[1]}")
    user = username if uid is None else str(check_id(uid, f"{field}.{forms[0]}"))
    if gid is None:
        return user
    if not user:
        raise InvalidArgument("a group needs a user beside it", field=f"{field}.run_as_group")
    return f"{user}:{check_id(gid, f'{field}.run_as_group')}"


def check_id(number: int, field: str) -> int:
    """A user or group id within the engines' range. Raises InvalidArgument: it is never wrapped."""
    if not 0 <= number <= _HIGHEST_ID:
        raise InvalidArgument(f"{number} is not an id (0 to {_HIGHEST_ID})", field=field)
    return number


def make_groups(groups: Iterable[int], field: str) -> tuple[int, ...]:
    """Supplemental groups as asked; whether the image's are added, `crishim.runtime.spec.accounts` decides."""
    return tuple(check_id(g, f"{field}.supplemental_groups[{i}]") for i, g in enumerate(groups))


def make_capabilities(
    asked: Capability | None, field: str, ways: Ways | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Capabilities to add and to drop, in the engine's names. Dropping wins; `ALL` comes first, then names.

    Ambient ones are added, too, so that the engine finds them known and allowed; that they are ambient is the front's
    to say (`ways`; None: there is none). Raises InvalidArgument, UnsupportedField.
    """
    if asked is None:
        return (), ()
    for name in ("add_ambient_capabilities", "add_capabilities", "drop_capabilities"):
        for i, capability in enumerate(getattr(asked, name)):
            if (full := full_name(capability)) != ALL and full not in KNOWN:
                raise InvalidArgument(f"{capability!r} is not the name of a capability", field=f"{field}.{name}[{i}]")
    ambient = asked_ambient(asked)
    if ambient:  # else there is nothing to carry, and the front would refuse the start
        (ways or Ways()).take(Beyond.AMBIENT, f"{field}.add_ambient_capabilities")
    # The engine applies what is added over what is dropped, so a word in both is only dropped.
    add = without_dropped((*asked.add_capabilities, *ambient), asked.drop_capabilities)
    return add, tuple(dict.fromkeys(map(full_name, asked.drop_capabilities)))


def make_seccomp(profile: SecurityProfile | None, deprecated: str, *, privileged: bool, field: str) -> str | None:
    """The engine's seccomp setting: None for its default, `unconfined`, or the text of a profile.

    Neither field given is unconfined (CRI). Privileged overrides it. Raises InvalidArgument for a profile file that is
    not an absolute path of a readable, valid one; reads that file.
    """
    if profile is None and deprecated:
        profile = _parse_deprecated(deprecated, f"{field}.seccomp_profile_path")
        field = f"{field}.seccomp_profile_path"
    else:
        field = f"{field}.seccomp"
    if privileged or profile is None or profile.profile_type is ProfileType.Unconfined:
        _no_reference(profile, field)
        return _UNCONFINED
    if profile.profile_type is ProfileType.RuntimeDefault:
        _no_reference(profile, field)
        return None
    return read_profile(profile.localhost_ref, f"{field}.localhost_ref")


def make_apparmor(
    profile: SecurityProfile | None,
    deprecated: str,
    *,
    privileged: bool,
    available: bool,
    field: str,
    loaded: Path = LOADED_APPARMOR,
) -> str | None:
    """The engine's AppArmor setting: None for its default, `unconfined`, or a profile's name.

    `available`: the engine runs on a kernel with AppArmor; where it does not, a named profile is refused. So is one
    that is not in `loaded`, which the engine would only miss at the container's start. Reads that file.
    """
    if profile is None and deprecated:
        profile = _parse_deprecated(deprecated, f"{field}.apparmor_profile")
        field = f"{field}.apparmor_profile"
    else:
        field = f"{field}.apparmor"
    if privileged:
        return _UNCONFINED if available else None
    if profile is None or profile.profile_type is ProfileType.RuntimeDefault:
        _no_reference(profile, field)
        return None
    if profile.profile_type is ProfileType.Unconfined:
        _no_reference(profile, field)
        return _UNCONFINED if available else None
    if not profile.localhost_ref:
        raise InvalidArgument("a Localhost profile needs a name", field=f"{field}.localhost_ref")
    if not available:
        raise UnsupportedField("the engine's kernel has no AppArmor", field=field)
    # The deprecated field's prefix is written into the new one, too: by critest, for one.
    name = profile.localhost_ref.removeprefix(_LOCALHOST)
    if not _is_loaded(name, loaded):
        raise InvalidArgument(f"no profile {name!r} is loaded", field=f"{field}.localhost_ref")
    return name


def _is_loaded(name: str, loaded: Path) -> bool:
    """Whether the kernel has the profile; also where it cannot be told: the engine then decides at the start."""
    try:
        lines = loaded.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return True
    return name in {line.rpartition(" (")[0] for line in lines}


def make_selinux(options: SELinuxOption | None, *, privileged: bool, available: bool, field: str) -> tuple[str, ...]:
    """The engine's SELinux label options; refused where SELinux is off, unless all parts are empty."""
    if privileged:
        return ("disable",) if available else ()
    if options is None:
        return ()
    parts = {k: getattr(options, k) for k in ("user", "role", "type", "level") if getattr(options, k)}
    if parts and not available:
        raise UnsupportedField("SELinux is off in the engine", field=field)
    return tuple(f"{key}:{value}" for key, value in parts.items())


def _parse_deprecated(text: str, field: str) -> SecurityProfile:
    if text in (_RUNTIME_DEFAULT, "docker/default"):
        return SecurityProfile(profile_type=ProfileType.RuntimeDefault)
    if text == _UNCONFINED:
        return SecurityProfile(profile_type=ProfileType.Unconfined)
    if text.startswith(_LOCALHOST):
        return SecurityProfile(profile_type=ProfileType.Localhost, localhost_ref=text.removeprefix(_LOCALHOST))
    raise InvalidArgument(f"{text!r}: one of {_RUNTIME_DEFAULT}, {_UNCONFINED}, {_LOCALHOST}…", field=field)


def _no_reference(profile: SecurityProfile | None, field: str) -> None:
    if profile is not None and profile.localhost_ref and profile.profile_type is not ProfileType.Localhost:
        raise InvalidArgument(
            f"goes with Localhost only, not with {profile.profile_type.name}", field=f"{field}.localhost_ref"
        )
