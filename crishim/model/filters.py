"""What a list is to be narrowed to. All given conditions must hold; an empty filter matches everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crishim.model.enums import ContainerState, PodSandboxState
from crishim.model.image import ImageSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSandboxFilter:
    """Which sandboxes to list (CRI `PodSandboxFilter`)."""

    id: str = ""
    """Full id or a prefix of it."""
    state: PodSandboxState | None = None
    """None: any state. The wire wraps it in a message, so that the zero value can be asked for."""
    label_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that must all be there with these values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFilter:
    """Which containers to list (CRI `ContainerFilter`)."""

    id: str = ""
    """Full id or a prefix of it."""
    state: ContainerState | None = None
    pod_sandbox_id: str = ""
    """Full id of the sandbox or a prefix of it."""
    label_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFilter:
    """Which images to list (CRI `ImageFilter`)."""

    image: ImageSpec | None = None
    """Only the image that this resolves to; None or an empty name: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatsFilter:
    """Of which containers to tell the statistics (CRI `ContainerStatsFilter`)."""

    id: str = ""
    """Full id or a prefix of it."""
    pod_sandbox_id: str = ""
    """Full id of the sandbox or a prefix of it."""
    label_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSandboxStatsFilter:
    """Of which sandboxes to tell the statistics (CRI `PodSandboxStatsFilter`)."""

    id: str = ""
    """Full id or a prefix of it."""
    label_selector: Mapping[str, str] = field(default_factory=dict)
