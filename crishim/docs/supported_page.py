"""docs/supported.md, made from `crishim.engine.features` and from what was measured (docs/conformance.json).

`python -m crishim.docs.supported_page > docs/supported.md` writes it anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crishim.engine.docker.handshake import NEWEST_API, OLDEST_API
from crishim.engine.features import BELOW, FIRST_API, Feature, needs

RESULTS = Path(__file__).parents[2] / "docs" / "conformance.json"

HEAD = """\
<!-- Made by `python -m crishim.docs.supported_page` from crishim/engine/features.py and docs/conformance.json; do not
edit. -->
# What is supported on which engine

crishim speaks API {oldest} (Docker Engine 20.10) to {newest}, and uses with each engine the newest version that both
know. These are the engines on which it is judged, and what depends on their version. All else is the same on all of
them. Which specs of critest do not pass, and why, is in [conformance.md](conformance.md).

"""


LOGS = """
## Logs

Log files are in CRI's format and rotated by the kubelet; the engine's json-files behind them take at most
`--log-spool-size` times `--log-spool-files` per container.

- json-file is text: what is not valid UTF-8 in a container's output is U+FFFD in its log. The engine cuts lines at
  16 KiB of bytes, so that a character on such a border is lost that way, too.
- What the engine deletes before it was read (a container that prints more than the spool holds while crishim is
  down) is gone: the server's log and `Status` (verbose, `logs.lost_bytes`) tell how much at least.
- The engine's data folder must be readable to crishim under the path that the engine tells; otherwise StartContainer
  fails with the path.
- Containers adopted from another shim: one that kept them with json-file is followed from the oldest file on that the
  engine still has (not from compressed ones); one with another log driver has no log, and the server says so.
"""

NETWORK = """
## The embedded network

`--network embedded`, and `auto` on a machine without any CNI, gives pods a bridge `crishim0`, and keeps all of its
packet filter rules in the nftables table `inet crishim`. It needs Linux 5.2 with nftables (NAT for both families in one
table), and no program or file.

- Where iptables' FORWARD chain drops, as Docker's does, a pair of rules marked `crishim` is put at the head of
  DOCKER-USER or FORWARD by the iptables program that owns the chain. A program that is missing is named by `Status`.
  A foreign nftables chain that drops must accept the interface `crishim0`; the log names it.
- A host port is reached at every IPv4 and IPv6 address of the host, and at 127.0.0.1. It is not at ::1: the kernel lets
  no packet from there leave the host.
- A pod whose host port another pod has is refused. Ports that a process of the host listens on are not known.
- SCTP ports need the kernel's SCTP tracking.
- `net.ipv4.ip_forward`, and its IPv6 counterpart where pods have IPv6, are switched on. A host whose own IPv6 address
  comes from router advertisements then needs `accept_ra` 2.
- Nothing of it is left when the server ends with no pod; else `nft delete table inet crishim` and
  `ip link delete crishim0` take it away.
"""

OUT_OF_MEMORY = """
## Out of memory

Whether a container was killed for want of memory is the engine's word. When a container's only process is killed, a
busy engine can miss the reason: measured without crishim, on a machine with eight processes waiting for each
processor, a fifth of such ends carried neither the mark nor an event. ContainerStatus then says `Error` with exit
code 137.
"""


@dataclass(frozen=True)
class JudgedEngine:
    """A column: an engine on which the specs were run."""

    title: str
    api_version: tuple[int, int]
    passed: int
    specs: int


def judged_engines(document: Sequence[Mapping[str, Any]]) -> list[JudgedEngine]:
    """The engines of the results."""
    found = []
    for result in document:
        engine = result["engine"]
        store = ", containerd image store" if engine["key"].endswith("-containerd") else ""
        major, minor = (int(part) for part in engine["api_version"].split("."))
        passed = sum(1 for spec in result["specs"] if spec["state"] == "passed")
        found.append(JudgedEngine(f"{engine['version']}{store}", (major, minor), passed, len(result["specs"])))
    return found


def page(engines: Sequence[JudgedEngine]) -> str:
    """The whole page in Markdown."""
    parts = [HEAD.format(oldest=_dotted(OLDEST_API), newest=_dotted(NEWEST_API))]
    parts.append(_row("Docker Engine", *(engine.title for engine in engines)))
    parts.append(_row("---", *("---" for _ in engines)))
    parts.append(_row("API", *(_dotted(engine.api_version) for engine in engines)))
    parts.append(_row("specs of critest passed", *(f"{engine.passed} of {engine.specs}" for engine in engines)))
    parts += [_row(feature.value, *(_cell(feature, engine) for engine in engines)) for feature in Feature]
    parts.append("\n## What happens without\n")
    for feature in Feature:
        parts.append(f"\n**{feature.value[0].upper()}{feature.value[1:]}.** Needs {needs(feature)}. {BELOW[feature]}\n")
    parts += [LOGS, NETWORK, OUT_OF_MEMORY]
    return "".join(parts)


def _cell(feature: Feature, engine: JudgedEngine) -> str:
    if engine.api_version < FIRST_API[feature]:
        return "no"
    return "where switched on" if feature is Feature.CDI_DEVICES else "yes"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


if __name__ == "__main__":
    sys.stdout.write(page(judged_engines(json.loads(RESULTS.read_text()))))
