from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from crishim.engine.docker.handshake import facts_from
from crishim.engine.values import EngineFacts


@pytest.fixture
def facts() -> Callable[..., EngineFacts]:
    """``facts(api=(1, 48), cdi=True)``: an engine of this API version."""
    plain = facts_from({}, {"DefaultRuntime": "runc"}, (1, 41), 1)

    def make(api: tuple[int, int] = (1, 41), *, cdi: bool = False) -> EngineFacts:
        return dataclasses.replace(plain, api_version=api, cdi=cdi)

    return make
