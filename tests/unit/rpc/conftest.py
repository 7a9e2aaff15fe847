"""Objects of the index as tests need them: the factories fill in what a test does not care about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crishim.checkpoint.record import ContainerRecord, Phase, SandboxRecord
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.model import (
    ContainerConfig,
    ContainerMetadata,
    ImageSpec,
    PodSandboxConfig,
    PodSandboxMetadata,
)
from crishim.runtime.objects import Container, Sandbox

SANDBOX_ID = "5a" * 32
CONTAINER_ID = "c0" * 32
IMAGE_ID = "sha256:" + "1a" * 32


def make_live(container_id: str, **changes: Any) -> EngineContainer:
    """What an engine would say of a running container."""
    values: dict[str, Any] = {
        "id": container_id,
        "name": f"k8s_{container_id[:6]}",
        "image_id": IMAGE_ID,
        "image": "busybox:1",
        "phase": ContainerPhase.RUNNING,
        "pid": 4242,
        "created_at": 1_000,
        "started_at": 2_000,
        "labels": {},
    }
    return EngineContainer(**values | changes)


@pytest.fixture
def make_sandbox() -> Callable[..., Sandbox]:
    """A READY sandbox; keywords of the record, of the config as `config`, of the engine's answer as `live`."""

    def make(
        sandbox_id: str = SANDBOX_ID,
        *,
        config: dict[str, Any] | None = None,
        live: dict[str, Any] | None = None,
        **record: Any,
    ) -> Sandbox:
        metadata = PodSandboxMetadata(name="web", uid="uid-1", namespace="default", attempt=2)
        values: dict[str, Any] = {
            "id": sandbox_id,
            "phase": Phase.READY,
            "config": PodSandboxConfig(**({"metadata": metadata} | (config or {}))),
            "created_at": 1_000,
            "started_at": 2_000,
        }
        return Sandbox(record=SandboxRecord(**values | record), live=make_live(sandbox_id, **(live or {})))

    return make


@pytest.fixture
def make_container() -> Callable[..., Container]:
    """A RUNNING container; keywords of the object, of the config as `config`, of the engine's answer as `live`."""

    def make(
        container_id: str = CONTAINER_ID,
        *,
        config: dict[str, Any] | None = None,
        live: dict[str, Any] | None = None,
        record: dict[str, Any] | None = None,
        sandbox_id: str = SANDBOX_ID,
        **values: Any,
    ) -> Container:
        asked: dict[str, Any] = {
            "metadata": ContainerMetadata(name="main", attempt=1),
            "image": ImageSpec(image="busybox:1"),
        }
        kept: dict[str, Any] = {
            "id": container_id,
            "config": ContainerConfig(**(asked | (config or {}))),
            "image_ref": IMAGE_ID,
            "created_at": 1_000,
        }
        return Container(
            record=ContainerRecord(**kept | (record or {})),
            sandbox_id=sandbox_id,
            live=make_live(container_id, **(live or {})),
            **values,
        )

    return make
