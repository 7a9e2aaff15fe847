"""Records and the engine's answers as tests of the runtime need them: what a test does not care about is filled in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crishim.checkpoint.record import ContainerRecord, Phase, SandboxRecord
from crishim.engine.simulated.facts import default_facts
from crishim.engine.values import ContainerPhase, EngineContainer, EngineFacts
from crishim.model import ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig, PodSandboxMetadata
from crishim.runtime.objects import Container, Sandbox

POD = PodSandboxMetadata(name="web", uid="uid-1", namespace="default", attempt=2)


@pytest.fixture
def facts() -> EngineFacts:
    """An engine with cgroup v2 and cgroupfs, seccomp, no AppArmor, no SELinux, one runtime."""
    return default_facts("/")


@pytest.fixture
def make_live() -> Callable[..., EngineContainer]:
    """What an engine says of a running container."""

    def make(container_id: str = "c1", **changes: Any) -> EngineContainer:
        values: dict[str, Any] = {
            "id": container_id,
            "name": f"/k8s_{container_id}",
            "image_id": "sha256:1",
            "image": "busybox",
            "phase": ContainerPhase.RUNNING,
            "pid": 42,
            "created_at": 1_000,
            "started_at": 2_000,
            "labels": {},
        }
        return EngineContainer(**values | changes)

    return make


@pytest.fixture
def make_sandbox(make_live: Callable[..., EngineContainer]) -> Callable[..., Sandbox]:
    """A READY sandbox; keywords of the record, of the engine's answer as `live` (None: none), of the config."""

    def make(
        sandbox_id: str = "s1",
        *,
        config: dict[str, Any] | None = None,
        live: dict[str, Any] | None = {},  # noqa: B006 - read only
        seen: bool = True,
        held: bool = True,
        **record: Any,
    ) -> Sandbox:
        values: dict[str, Any] = {
            "id": sandbox_id,
            "phase": Phase.READY,
            "config": PodSandboxConfig(**({"metadata": POD} | (config or {}))),
            "created_at": 1_000,
            "started_at": 2_000,
        }
        answer = None if live is None else make_live(sandbox_id, **live)
        return Sandbox(record=SandboxRecord(**values | record), live=answer, seen=seen, held=held)

    return make


@pytest.fixture
def make_container(make_live: Callable[..., EngineContainer]) -> Callable[..., Container]:
    """A RUNNING container; keywords of the object, of the engine's answer as `live`."""

    def make(container_id: str = "c1", *, live: dict[str, Any] | None = None, **values: Any) -> Container:
        config = ContainerConfig(metadata=ContainerMetadata(name="main"), image=ImageSpec(image="busybox"))
        record = ContainerRecord(id=container_id, config=config, image_ref="sha256:1", created_at=1_000)
        given: dict[str, Any] = {"record": record, "sandbox_id": "s1", "live": make_live(container_id, **(live or {}))}
        return Container(**given | values)

    return make
