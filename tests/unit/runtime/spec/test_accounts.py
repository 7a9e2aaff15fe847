"""Users and groups as an image's account files have them."""

from __future__ import annotations

from typing import Any

import pytest

from crishim.engine.values import ContainerSpec
from crishim.errors import InvalidArgument
from crishim.model import LinuxContainerSecurityContext, SupplementalGroupsPolicy
from crishim.runtime.spec.accounts import Accounts, Group, User, needs_accounts, parse_accounts, with_identity

STRICT = SupplementalGroupsPolicy.Strict
ACCOUNTS = parse_accounts(
    b"root:x:0:0::/root:/bin/sh\n# comment:x:1:1::\n\nbad line\nodd:x:y:1::/:\napp:x:1000:100:App:/:\n5:x:7:7::\n",
    b"root:x:0:root\napp:x:100:\none:x:50000:other,app\ntwo:x:50001:app\nnameless:x:z:app\n",
)


def context(**asked: Any) -> LinuxContainerSecurityContext:
    return LinuxContainerSecurityContext(**asked)


def test_lines_that_are_none_are_left_out() -> None:
    assert ACCOUNTS.users == (User("root", 0, 0), User("app", 1000, 100), User("5", 7, 7))
    assert ACCOUNTS.groups[2] == Group("one", 50000, ("other", "app"))
    assert len(ACCOUNTS.groups) == 4
    assert parse_accounts(None, None) == parse_accounts(b"\xff\0", b"") == Accounts()


def test_digits_are_a_name_or_an_id() -> None:
    assert ACCOUNTS.user("1000") == ACCOUNTS.user("app") == User("app", 1000, 100)
    assert ACCOUNTS.user("5") == User("5", 7, 7)
    assert ACCOUNTS.user("8") is None


@pytest.mark.parametrize(
    ("asked", "needed"),
    [
        ({}, False),
        ({"run_as_user": 1000}, False),  # the engine merges by itself
        ({"run_as_user": 1000, "run_as_group": 5}, True),
        ({"run_as_username": "app"}, True),
        ({"supplemental_groups_policy": STRICT}, True),
        ({"supplemental_groups_policy": STRICT, "run_as_user": 1000}, True),
        ({"supplemental_groups_policy": STRICT, "run_as_user": 1000, "run_as_group": 5}, False),
    ],
    ids=str,
)
def test_the_files_are_read_where_they_decide(asked: dict[str, Any], needed: bool) -> None:
    assert needs_accounts(context(**asked)) is needed


@pytest.mark.parametrize(
    ("asked", "user", "image_user", "made"),
    [
        ({"run_as_username": "app"}, "app", "", ("app", (9,))),
        ({"run_as_user": 1000, "run_as_group": 5}, "1000:5", "", ("1000:5", (9, 50000, 50001))),
        ({"run_as_user": 8, "run_as_group": 5}, "8:5", "", ("8:5", (9,))),
        ({"run_as_username": "app", "run_as_group": 5}, "app:5", "", ("app:5", (9, 50000, 50001))),
        ({"supplemental_groups_policy": STRICT, "run_as_user": 1000}, "1000", "", ("1000:100", (9,))),
        ({"supplemental_groups_policy": STRICT, "run_as_user": 8}, "8", "", ("8:0", (9,))),
        ({"supplemental_groups_policy": STRICT}, "", "", ("0:0", (9,))),
        ({"supplemental_groups_policy": STRICT}, "", "app", ("app:100", (9,))),
        ({"supplemental_groups_policy": STRICT}, "", "1000:7", ("1000:7", (9,))),
        ({"supplemental_groups_policy": STRICT, "run_as_username": "app"}, "app", "root", ("app:100", (9,))),
    ],
    ids=str,
)
def test_identity(asked: dict[str, Any], user: str, image_user: str, made: tuple[str, tuple[int, ...]]) -> None:
    spec = ContainerSpec(image="x", labels={}, user=user, groups=(9,))
    settled = with_identity(spec, context(**asked), image_user, ACCOUNTS, "f")
    assert (settled.user, settled.groups) == made


def test_a_group_is_named_once() -> None:
    spec = ContainerSpec(image="x", labels={}, user="1000:5", groups=(50001,))
    asked = context(run_as_user=1000, run_as_group=5)
    assert with_identity(spec, asked, "", ACCOUNTS, "f").groups == (50001, 50000)


def test_a_name_that_the_image_lacks() -> None:
    spec = ContainerSpec(image="x", labels={}, user="ghost")
    with pytest.raises(InvalidArgument, match="no user 'ghost'") as caught:
        with_identity(spec, context(run_as_username="ghost"), "", ACCOUNTS, "f")
    assert caught.value.field == "f.run_as_username"
