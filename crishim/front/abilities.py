"""What the real runtime behind a front can do, in its own words (runtime-spec features.md: `RUNTIME features`)."""

from __future__ import annotations

import asyncio
import json
import logging
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Collection, Mapping

from crishim.front.twins import read_conf

log = logging.getLogger(__name__)

_PATIENCE = 5.0
"""Seconds in which a runtime must have answered."""
RECURSIVE_READ_ONLY = "rro"


async def recursing(programs: Mapping[str, str], runtimes: Collection[str]) -> frozenset[str]:
    """Those of the runtimes whose front becomes a program that knows recursively read-only mounts.

    `programs`: the fronts' programs by runtime. A runtime that does not answer is said not to know them: older ones
    take the option for data of the file system, and mount as if it were not there.
    """
    found = await asyncio.gather(*(_mount_options(programs[runtime]) for runtime in runtimes))
    return frozenset(name for name, options in zip(runtimes, found, strict=True) if RECURSIVE_READ_ONLY in options)


async def _mount_options(program: str) -> frozenset[str]:
    """The mount options that the runtime behind a front says it knows; none where it does not say."""
    process = None
    try:
        conf = read_conf(program)
        async with asyncio.timeout(_PATIENCE):
            process = await asyncio.create_subprocess_exec(
                conf.runtime, *conf.arguments, "features", stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
            )
            output, _ = await process.communicate()
        features = json.loads(output)
    except (OSError, ValueError, TimeoutError) as error:
        log.info("the runtime behind %s does not tell its features: %s", program, str(error) or "too slow")
        return frozenset()
    finally:
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
    options = features.get("mountOptions") if isinstance(features, dict) else None
    return frozenset(option for option in options or () if isinstance(option, str))
