"""What a newer engine can do and an older one cannot: one table, asked with `has(facts, Feature.X)`.

The figures are those of the Docker Engine API's version history. A feature stands here when code asks for it, so that
there is one place to read what crishim does differently on an older engine.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping

from crishim.engine.values import EngineFacts


class Feature(enum.Enum):
    """An ability that not every engine has."""

    READONLY_RECURSION = "whether submounts of a read-only bind are read-only, too, can be said; before, they never are"
    IMAGE_MOUNTS = "mounts that show the files of an image"
    CONSOLE_SIZE = "exec with the terminal's size given before the process starts"
    CDI_DEVICES = "devices by CDI name (vendor/class=name), where the engine has CDI switched on"


FIRST_API: Mapping[Feature, tuple[int, int]] = {
    Feature.READONLY_RECURSION: (1, 44),
    Feature.IMAGE_MOUNTS: (1, 48),
    Feature.CONSOLE_SIZE: (1, 42),
    Feature.CDI_DEVICES: (1, 44),
}
"""The first version of the engine's API that has the feature."""

BELOW: Mapping[Feature, str] = {
    Feature.READONLY_RECURSION: "`Mount.recursive_read_only` is refused (RROUnsupported), and Status does "
    "not offer it, unless the runtime has a front. A mount that is only `readonly` behaves as CRI wants: its submounts "
    "stay as they are.",
    Feature.IMAGE_MOUNTS: "`Mount.image` is refused (ImageVolumeMountFailed).",
    Feature.CONSOLE_SIZE: "The client's first size is sent right behind the start, and again if that was too "
    "early; what the process prints in the milliseconds before may be laid out for another size.",
    Feature.CDI_DEVICES: "`ContainerConfig.CDI_devices` is refused (UnsupportedField).",
}
"""What an engine without the feature makes crishim do, for docs/supported.md."""


_SETS_ATTRIBUTES = (5, 12)


def has(facts: EngineFacts, feature: Feature) -> bool:
    """Whether the engine of this handshake has the feature."""
    if facts.api_version < FIRST_API[feature]:
        return False
    return facts.cdi if feature is Feature.CDI_DEVICES else True


def recurses_readonly(facts: EngineFacts, runtime: str) -> bool:
    """Whether a mount can be made read-only with all that is mounted below it: the engine can say it, the runtime says
    that it can, and the kernel does it (mount_setattr, Linux 5.12)."""
    able = runtime in facts.readonly_recursion and sets_mount_attributes(facts)
    return has(facts, Feature.READONLY_RECURSION) and able


def sets_mount_attributes(facts: EngineFacts) -> bool:
    """Whether the engine's kernel changes attributes of a whole tree of mounts (mount_setattr, Linux 5.12)."""
    return kernel_of(facts) >= _SETS_ATTRIBUTES


def kernel_of(facts: EngineFacts) -> tuple[int, int]:
    """Version of the engine's kernel; (0, 0) where it does not tell one."""
    match = re.match(r"(\d+)\.(\d+)", facts.kernel)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def needs(feature: Feature) -> str:
    """What an engine must be to have the feature, for messages: `engine API 1.48`."""
    major, minor = FIRST_API[feature]
    return f"engine API {major}.{minor}" + (" with CDI switched on" if feature is Feature.CDI_DEVICES else "")
