"""Names of the engine's objects, and who may make one."""

from __future__ import annotations

import asyncio

import pytest

from crishim.model import ContainerMetadata, PodSandboxMetadata
from crishim.runtime.names import Names, make_container_name, make_sandbox_name, parse_name

POD = PodSandboxMetadata(name="web-0", uid="u-1", namespace="kube-system", attempt=3)


def test_the_scheme_is_dockershims() -> None:
    assert make_sandbox_name(POD) == "k8s_POD_web-0_kube-system_u-1_3"
    container = ContainerMetadata(name="main", attempt=1)
    assert make_container_name(container, POD) == "k8s_main_web-0_kube-system_u-1_1"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("k8s_POD_web-0_kube-system_u-1_3", ("POD", "web-0", "kube-system", "u-1", 3)),
        ("/k8s_main_web_ns_u_0", ("main", "web", "ns", "u", 0)),
        ("k8s_main_web_ns_u_0_5a5a5a5a", ("main", "web", "ns", "u", 0)),
        ("k8s_main_web__u_0", ("main", "web", "", "u", 0)),
        ("k8s_main_web_ns_u_-1", None),
        ("k8s_main_web_ns_u", None),
        ("other_main_web_ns_u_0", None),
        ("", None),
    ],
)
def test_parse(name: str, parts: tuple[str, str, str, str, int] | None) -> None:
    assert parse_name(name) == parts


async def test_the_second_waits_for_the_first() -> None:
    names, order = Names(), list[str]()

    async def make(who: str) -> None:
        async with names.reserve("a", "b"):
            order.append(f"{who} in")
            await asyncio.sleep(0)
            order.append(f"{who} out")

    await asyncio.gather(make("1"), make("2"))
    assert order == ["1 in", "1 out", "2 in", "2 out"]
    assert len(names) == 0


async def test_what_was_reserved_meanwhile_is_noted() -> None:
    names = Names()
    async with names.reserve("before"):
        with names.noting() as note:
            async with names.reserve("during", "and its second"):
                pass
        async with names.reserve("after"):
            assert repr(names) == "<Names ['after', 'before']>"
    assert note == {"before", "during", "and its second"}
