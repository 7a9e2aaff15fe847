from __future__ import annotations

from collections.abc import Callable

import pytest

from crishim.checkpoint.record import Phase
from crishim.engine.values import ContainerPhase
from crishim.model import ContainerFilter, ContainerState, PodSandboxFilter, PodSandboxState
from crishim.rpc.selection import select_containers, select_sandboxes
from crishim.runtime.objects import Container, Sandbox


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (PodSandboxFilter(), ["aa11", "aa22", "bb33"]),
        (PodSandboxFilter(id="aa11"), ["aa11"]),
        (PodSandboxFilter(id="aa"), ["aa11", "aa22"]),
        (PodSandboxFilter(id="cc"), []),
        (PodSandboxFilter(id="aa111"), []),
        (PodSandboxFilter(state=PodSandboxState.SANDBOX_READY), ["aa11", "bb33"]),
        (PodSandboxFilter(state=PodSandboxState.SANDBOX_NOTREADY), ["aa22"]),
        (PodSandboxFilter(label_selector={"app": "web"}), ["aa11", "aa22"]),
        (PodSandboxFilter(label_selector={"app": "web", "tier": "2"}), ["aa22"]),
        (PodSandboxFilter(label_selector={"app": ""}), []),
        (PodSandboxFilter(id="aa", state=PodSandboxState.SANDBOX_READY, label_selector={"app": "web"}), ["aa11"]),
    ],
)
def test_sandboxes(make_sandbox: Callable[..., Sandbox], wanted: PodSandboxFilter, expected: list[str]) -> None:
    sandboxes = [
        make_sandbox("aa11", config={"labels": {"app": "web"}}),
        make_sandbox("aa22", config={"labels": {"app": "web", "tier": "2"}}, phase=Phase.STOPPED),
        make_sandbox("bb33"),
    ]
    assert [s.id for s in select_sandboxes(sandboxes, wanted)] == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ContainerFilter(), ["c1", "c2", "d3"]),
        (ContainerFilter(id="c"), ["c1", "c2"]),
        (ContainerFilter(pod_sandbox_id="5"), ["c1", "c2"]),
        (ContainerFilter(pod_sandbox_id="5a"), ["c1"]),
        (ContainerFilter(pod_sandbox_id="nobody"), []),
        (ContainerFilter(state=ContainerState.CONTAINER_CREATED), ["c2"]),
        (ContainerFilter(state=ContainerState.CONTAINER_UNKNOWN), []),
        (ContainerFilter(label_selector={"k": "v"}), ["c2", "d3"]),
        (ContainerFilter(pod_sandbox_id="5b", state=ContainerState.CONTAINER_RUNNING), []),
    ],
)
def test_containers(make_container: Callable[..., Container], wanted: ContainerFilter, expected: list[str]) -> None:
    created = {"phase": ContainerPhase.CREATED, "started_at": 0}
    containers = [
        make_container("c1", sandbox_id="5a"),
        make_container("c2", sandbox_id="5b", live=created, config={"labels": {"k": "v"}}),
        make_container("d3", sandbox_id="77", config={"labels": {"k": "v", "x": "y"}}),
    ]
    assert [c.id for c in select_containers(containers, wanted)] == expected
