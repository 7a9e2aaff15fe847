"""What a process may do: carried out as asked, or refused by the field's path."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import Capability, ProfileType, SecurityProfile, SELinuxOption, Signal
from crishim.runtime.spec import security
from crishim.runtime.spec.signals import make_stop_signal

DEFAULT, UNCONFINED, LOCALHOST = ProfileType.RuntimeDefault, ProfileType.Unconfined, ProfileType.Localhost
MOST = 2**31 - 1


def refused(call: Any, *args: Any, **kwargs: Any) -> tuple[type[InvalidArgument], str]:
    with pytest.raises(InvalidArgument) as caught:
        call(*args, **kwargs)
    return type(caught.value), caught.value.field


# --- users and groups


@pytest.mark.parametrize(
    ("uid", "gid", "name", "user"),
    [
        (None, None, "", ""),
        (0, None, "", "0"),
        (1000, 2000, "", "1000:2000"),
        (0, 0, "", "0:0"),
        (MOST, MOST, "", f"{MOST}:{MOST}"),
        (None, None, "www", "www"),
        (None, 5, "www", "www:5"),
    ],
)
def test_user(uid: int | None, gid: int | None, name: str, user: str) -> None:
    assert security.make_user(uid, gid, name, "f") == user


@pytest.mark.parametrize(
    ("uid", "gid", "name", "field"),
    [
        (1, None, "www", "f.run_as_username"),
        (None, None, "www:staff", "f.run_as_username"),
        (None, 5, "", "f.run_as_group"),
        (-1, None, "", "f.run_as_user"),
        (MOST + 1, None, "", "f.run_as_user"),
        (2**32, None, "", "f.run_as_user"),
        (1, MOST + 1, "", "f.run_as_group"),
        (1, -1, "", "f.run_as_group"),
        (1, 2**63 - 1, "", "f.run_as_group"),
    ],
)
def test_user_refused(uid: int | None, gid: int | None, name: str, field: str) -> None:
    forms = ("run_as_user", "run_as_username")
    assert refused(security.make_user, uid, gid, name, "f", forms=forms) == (InvalidArgument, field)


def test_groups() -> None:
    assert security.make_groups((1, 2), "f") == (1, 2)
    for bad in (-2, MOST + 1):
        assert refused(security.make_groups, (1, bad), "f") == (InvalidArgument, "f.supplemental_groups[1]")


# --- capabilities


@pytest.mark.parametrize(
    ("add", "drop", "made"),
    [
        ((), (), ((), ())),
        (("NET_ADMIN", "CAP_SYS_TIME"), (), (("CAP_NET_ADMIN", "CAP_SYS_TIME"), ())),
        (("net_admin", "NET_ADMIN", "CAP_NET_ADMIN"), (), (("CAP_NET_ADMIN",), ())),
        ((), ("ALL", "CHOWN"), ((), ("ALL", "CAP_CHOWN"))),
        (("CHOWN",), ("ALL",), (("CAP_CHOWN",), ("ALL",))),
        (("CHOWN",), ("CAP_CHOWN",), ((), ("CAP_CHOWN",))),
        (("ALL",), ("CHOWN",), (("ALL",), ("CAP_CHOWN",))),
        (("all", "CHOWN"), ("ALL",), (("CAP_CHOWN",), ("ALL",))),
    ],
)
def test_capabilities(
    add: tuple[str, ...], drop: tuple[str, ...], made: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    assert security.make_capabilities(Capability(add_capabilities=add, drop_capabilities=drop), "f") == made


def test_capabilities_refused() -> None:
    assert security.make_capabilities(None, "f") == ((), ())
    make = security.make_capabilities
    for bad in ("B C", "NO_SUCH", "CAP_", "CAP_ALL"):
        asked = Capability(add_capabilities=("KILL", bad))
        assert refused(make, asked, "f") == (InvalidArgument, "f.add_capabilities[1]"), bad
    assert refused(make, Capability(drop_capabilities=("",)), "f") == (InvalidArgument, "f.drop_capabilities[0]")
    ambient = Capability(add_ambient_capabilities=("CHOWN",))
    assert refused(make, ambient, "f") == (UnsupportedField, "f.add_ambient_capabilities")


# --- seccomp


@pytest.mark.parametrize(
    ("profile", "deprecated", "made"),
    [
        (None, "", "unconfined"),
        (SecurityProfile(profile_type=UNCONFINED), "", "unconfined"),
        (SecurityProfile(profile_type=DEFAULT), "", None),
        (None, "unconfined", "unconfined"),
        (None, "runtime/default", None),
        (None, "docker/default", None),
        (SecurityProfile(profile_type=DEFAULT), "unconfined", None),  # the typed one wins
        (SecurityProfile(profile_type=UNCONFINED), "what?", "unconfined"),
    ],
)
def test_seccomp(profile: SecurityProfile | None, deprecated: str, made: str | None) -> None:
    assert security.make_seccomp(profile, deprecated, privileged=False, field="f") == made
    assert security.make_seccomp(profile, deprecated, privileged=True, field="f") == "unconfined"


def test_a_seccomp_profile_of_the_node(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [] }')
    profile = SecurityProfile(profile_type=LOCALHOST, localhost_ref=str(path))
    for given, deprecated in ((profile, ""), (None, f"localhost/{path}")):
        made = security.make_seccomp(given, deprecated, privileged=False, field="f")
        assert json.loads(made or "") == {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}


def test_a_bad_seccomp_profile_is_never_replaced_by_another(tmp_path: Path) -> None:
    bad = {
        "no json": b"{",
        "no object": b"[]",
        "no action": b'{"syscalls": []}',
        "no text": b'{"defaultAction": 1}',
        "large": b" " * (4 << 20) + b"{}",
        "binary": b"\xff\xfe",
        "deep": b"[" * 100_000,
        "no number": b'{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [], "defaultErrnoRet": NaN}',
        "unknown action": b'{"defaultAction": "SCMP_ACT_SHOUT"}',
        "architectures": b'{"defaultAction": "SCMP_ACT_ALLOW", "architectures": [1]}',
        "rules": b'{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": {}}',
    }
    rule: dict[str, object] = {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}
    rules: dict[str, object] = {
        "rule": "mkdir",
        "rule without action": rule | {"action": None},
        "rule without names": rule | {"names": []},
        "rule of numbers": rule | {"names": [1]},
        "rule with two kinds of names": rule | {"name": "mkdirat"},
        "rule with an operator": rule | {"args": [{"index": 0, "op": "SCMP_CMP_SAME"}]},
        "rule with an argument": rule | {"args": [{"index": 6, "op": "SCMP_CMP_EQ"}]},
        "rule with a negative value": rule | {"args": [{"index": 0, "value": -1, "op": "SCMP_CMP_EQ"}]},
    }
    bad |= {
        name: json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule, odd]}).encode()
        for name, odd in rules.items()
    }
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
    os.mkfifo(tmp_path / "fifo")
    paths = [str(tmp_path / name) for name in (*bad, "fifo", "missing")] + [str(tmp_path), "relative.json", "", "/a\0b"]
    for path in paths:
        profile = SecurityProfile(profile_type=LOCALHOST, localhost_ref=path)
        call = refused(security.make_seccomp, profile, "", privileged=False, field="f")
        assert call == (InvalidArgument, "f.seccomp.localhost_ref"), path


def test_seccomp_refused() -> None:
    profile = SecurityProfile(profile_type=DEFAULT, localhost_ref="/x")
    make = security.make_seccomp
    assert refused(make, profile, "", privileged=False, field="f") == (InvalidArgument, "f.seccomp.localhost_ref")
    assert refused(make, None, "what?", privileged=False, field="f") == (InvalidArgument, "f.seccomp_profile_path")


# --- AppArmor, SELinux


@pytest.mark.parametrize(
    ("profile", "deprecated", "privileged", "available", "made"),
    [
        (None, "", False, True, None),
        (None, "", False, False, None),
        (SecurityProfile(profile_type=DEFAULT), "", False, True, None),
        (SecurityProfile(profile_type=DEFAULT), "", False, False, None),
        (SecurityProfile(profile_type=UNCONFINED), "", False, True, "unconfined"),
        (SecurityProfile(profile_type=UNCONFINED), "", False, False, None),
        (SecurityProfile(profile_type=LOCALHOST, localhost_ref="mine"), "", False, True, "mine"),
        (SecurityProfile(profile_type=LOCALHOST, localhost_ref="mine"), "", True, True, "unconfined"),
        (SecurityProfile(profile_type=LOCALHOST, localhost_ref="mine"), "", True, False, None),
        (SecurityProfile(profile_type=LOCALHOST, localhost_ref="localhost/mine"), "", False, True, "mine"),
        (None, "localhost/mine", False, True, "mine"),
        (None, "runtime/default", False, True, None),
        (SecurityProfile(profile_type=DEFAULT), "localhost/mine", False, True, None),
    ],
)
def test_apparmor(
    profile: SecurityProfile | None,
    deprecated: str,
    privileged: bool,
    available: bool,
    made: str | None,
    tmp_path: Path,
) -> None:
    loaded = tmp_path / "profiles"
    loaded.write_text("docker-default (enforce)\nmine (complain)\n")
    options: dict[str, Any] = {"privileged": privileged, "available": available, "field": "f"}
    assert security.make_apparmor(profile, deprecated, **options, loaded=loaded) == made


def test_an_apparmor_profile_must_be_loaded_as_far_as_that_can_be_told(tmp_path: Path) -> None:
    mine = SecurityProfile(profile_type=LOCALHOST, localhost_ref="mine")
    options: dict[str, Any] = {"privileged": False, "available": True, "field": "f", "loaded": tmp_path / "profiles"}
    assert security.make_apparmor(mine, "", **options) == "mine"
    (tmp_path / "profiles").write_text("mine//child (enforce)\nmine too (enforce)\n")
    assert refused(security.make_apparmor, mine, "", **options) == (InvalidArgument, "f.apparmor.localhost_ref")
    two = SecurityProfile(profile_type=LOCALHOST, localhost_ref="mine too")
    assert security.make_apparmor(two, "", **options) == "mine too"


def test_apparmor_refused() -> None:
    def make(profile: SecurityProfile | None, deprecated: str = "", *, available: bool = True) -> Any:
        return refused(security.make_apparmor, profile, deprecated, privileged=False, available=available, field="f")

    mine = SecurityProfile(profile_type=LOCALHOST, localhost_ref="mine")
    assert make(mine, available=False) == (UnsupportedField, "f.apparmor")
    assert make(None, "localhost/mine", available=False) == (UnsupportedField, "f.apparmor_profile")
    assert make(SecurityProfile(profile_type=LOCALHOST)) == (InvalidArgument, "f.apparmor.localhost_ref")
    assert make(SecurityProfile(localhost_ref="x")) == (InvalidArgument, "f.apparmor.localhost_ref")
    assert make(None, "mine") == (InvalidArgument, "f.apparmor_profile")


@pytest.mark.parametrize(
    ("options", "privileged", "available", "made"),
    [
        (None, False, False, ()),
        (None, False, True, ()),
        (SELinuxOption(), False, False, ()),
        (
            SELinuxOption(user="u", role="r", type="t", level="l"),
            False,
            True,
            ("user:u", "role:r", "type:t", "level:l"),
        ),
        (SELinuxOption(level="s0"), False, True, ("level:s0",)),
        (SELinuxOption(level="s0"), True, True, ("disable",)),
        (SELinuxOption(level="s0"), True, False, ()),
    ],
)
def test_selinux(options: SELinuxOption | None, privileged: bool, available: bool, made: tuple[str, ...]) -> None:
    assert security.make_selinux(options, privileged=privileged, available=available, field="f") == made


def test_selinux_refused_where_it_is_off() -> None:
    call = refused(security.make_selinux, SELinuxOption(level="s0"), privileged=False, available=False, field="f")
    assert call == (UnsupportedField, "f")


# --- signals


@pytest.mark.parametrize(
    ("signal", "name"),
    [
        (Signal.SIGNAL_RUNTIME_DEFAULT, ""),
        (Signal.SIGNAL_SIGTERM, "SIGTERM"),
        (Signal.SIGNAL_SIGCLD, "SIGCHLD"),
        (Signal.SIGNAL_SIGIOT, "SIGABRT"),
        (Signal.SIGNAL_SIGPOLL, "SIGIO"),
        (Signal.SIGNAL_SIGRTMIN, "SIGRTMIN"),
        (Signal.SIGNAL_SIGRTMINPLUS3, "SIGRTMIN+3"),
        (Signal.SIGNAL_SIGRTMAXMINUS14, "SIGRTMAX-14"),
        (Signal.SIGNAL_SIGRTMAX, "SIGRTMAX"),
    ],
)
def test_stop_signal(signal: Signal, name: str) -> None:
    assert make_stop_signal(signal) == name


def test_every_signal_is_one_that_an_engine_knows() -> None:
    from crishim.engine.simulated.program import parse_signal

    for signal in Signal:
        if name := make_stop_signal(signal):
            assert parse_signal(name) > 0
