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
VIRTUAL = "vm-"
FRONTED = "-front"
"""How the keys of results begin that a virtual machine gave."""

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
- What a container prints while the engine itself is restarting (live-restore) can be lost by the engine: seen on 20.10
  is a last line without end of a container that ends meanwhile. Whatever the engine has kept is in the log.
- With no room on the logs' disk containers go on; the gap is filled once there is room, as far as the spool reaches
  back. `Status` (verbose) tells `logs.full_disk` (how often), `logs.lag_bytes` (what spools hold and logs do not) and
  `logs.written_bytes`; a container whose end had to be told before its log was complete counts in
  `logs.exits_before_log`, and what was written after that in `logs.late_lines`. RemoveContainer waits two seconds for
  such a log, then its rest is lost, and counted.
- The engine's data folder must be readable to crishim under the path that the engine tells; otherwise StartContainer
  fails with the path.
- Containers adopted from another shim: one that kept them with json-file is followed from the oldest file on that the
  engine still has (not from compressed ones). With another log driver (`local`, `journald`, and since Docker 20.10 any
  that the engine keeps a copy of) the engine is asked for the log, from its beginning, and what it says is kept in a
  spool of ours below `--state-dir`, as large as its own. Lost is what the engine has dropped by then (with `local` what
  exceeds its `max-size` times `max-file`, with a non-blocking driver what its buffer could not take); bytes that are no
  UTF-8 are U+FFFD. Such logs cost 55 ms of processor time per MB, others 10. With a driver that cannot be read
  (`none`) the container has no log and ReopenContainerLog fails; the server's log says so, and all else works.
"""

STREAMS = """
## Exec, attach and port-forward

- A client that leaves an exec ends the input of its process, or hangs its terminal up, as containerd does. A process
  without a terminal that never reads its input runs on until it ends by itself or its container does.
- ExecSync answers with at most 16 MiB of output; more is read and dropped, as CRI wants it, and the exit code is kept.
- Processes of ExecSync are killed by crishim, from the host: it needs pidfds (Linux 5.3). An engine that is restarted
  forgets its execs; with live-restore their processes run on, and crishim kills those that it had seen for a second.
  Of one that was started in the last second before, nobody knows which process it is: it goes with its container.
- When the server is killed, processes that its clients gave input read its end. Those of ExecSync, and those at a
  terminal, run on as the engine's, and go with their container.
- No keys detach from a terminal. The engine needs some to wait for, of which crishim names the least used: ctrl-^ typed
  alone arrives with the next key.
- Where a container's stdin stays open (`stdin_once` false), a client's end of input does not reach it: others may
  attach later.
- Port-forward reaches what listens on the pod's loopback, IPv4 first, then IPv6. A connection that the pod breaks off
  is told on its error stream, upon which clients made of client-go end the whole port-forward.
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
- A pod whose host port another pod has is refused (HostPortTaken). Ports that a process of the host listens on are not
  known.
- Rules that were flushed, the pair in a foreign chain, and a bridge that was deleted, put down or stripped of its
  address are put back at the next pod's attach, or within 10 seconds; `Status` says so of the bridge. Pods keep their
  addresses, and are ports of the new bridge.
- SCTP ports need the kernel's SCTP tracking.
- `net.ipv4.ip_forward`, and its IPv6 counterpart where pods have IPv6, are switched on. A host whose own IPv6 address
  comes from router advertisements then needs `accept_ra` 2.
- Nothing of it is left when the server ends with no pod; else `nft delete table inet crishim` and
  `ip link delete crishim0` take it away.
"""

FRONT = """
## With a front of the runtime

`crishim install-runtime` puts a front before the engine's runtimes, which says to them what the engine's API cannot.
With it, these are in force on every engine; without, they are refused by name ([fields.md](fields.md)):

| field | needs beside the front |
| --- | --- |
| ambient capabilities (in execs, too) | |
| mount options `noexec`, `nodev`, `nosuid` (of the mount, not of what is mounted below) | |
| recursively read-only mounts | Linux 5.12; a runtime whose `features` tell `rro` (runc 1.1) |
| `unified` | cgroup version 2 |
| user namespaces of pods, volumes included | Linux 5.19 (tmpfs volumes: 6.3); overlay2 or containerd overlays |
| limits of huge pages | cgroups that limit them |

- Containers that ask for one of these, and those of anchored pods (`--carrier`; with the front all pods), are run by
  the front's twin of their runtime (`crishim-runc` for `runc`); all others never pass it. `docker inspect` shows the
  twin and nothing of what it carries; ContainerStatus tells it.
- Such a container starts while crishim serves, and not otherwise: also when somebody restarts it by hand.
- `unified` and huge pages can be changed by UpdateContainerResources; crishim writes those files of the cgroup itself.
- Status tells for each handler whether mounts can be recursively read-only. For mount options CRI has one word for the
  node: it is about the default handler.
- A pod with a user namespace is anchored (`--carrier`), and has a network, IPC and PID namespaces that are not the
  host's. Its containers see the engine's files once more, with shifted owners; on disk these stay as they are.
  As two overlays then lie over the same layers, `docker cp` and `docker commit` of a running one are not supported.
  Volumes must lie on a file system that can shift owners; the start of the container fails with its name otherwise.
- Supplemental groups by the policy Strict need no front: the user's own group is named by number, and then no engine
  adds those of the image, neither at the start nor in an exec.
- Environment values that are not UTF-8 stay refused: what engine and front say to a runtime is JSON, which is text.
"""

OUT_OF_MEMORY = """
## Out of memory

Whether a container was killed for want of memory is the engine's word. When a container's only process is killed, a
busy engine can miss the reason: measured without crishim, on a machine with eight processes waiting for each
processor, a fifth of such ends carried neither the mark nor an event. ContainerStatus then says `Error` with exit
code 137.
"""

EVERYWHERE = """
## What no engine's API can say

- Containers cannot join a pod's UTS namespace: all of a pod's containers are given the pod's hostname, and a change
  made inside one is not seen by the others.
- Default ulimits of the engine's daemon.json apply to pods' containers, too: CRI has no ulimits to put in their place.
  `Status` (verbose) reminds of them; the API does not tell whether there are any.
- Two servers on one engine would each take over the other's pods: one crishim per engine.
"""


@dataclass(frozen=True)
class JudgedEngine:
    """A column: an engine on which the specs were run."""

    title: str
    api_version: tuple[int, int]
    passed: int
    specs: int
    fronted: int | None = None
    """How many passed with the front of the runtime; None: it was not judged so."""


def judged_engines(document: Sequence[Mapping[str, Any]]) -> list[JudgedEngine]:
    """The engines of the results."""
    found = []
    passed_of = {
        result["engine"]["key"]: sum(1 for spec in result["specs"] if spec["state"] == "passed") for result in document
    }
    for result in document:
        engine = result["engine"]
        if engine["key"].startswith(VIRTUAL) or engine["key"].endswith(FRONTED):
            continue  # a few specs, on an engine of the table; or a row of its column
        store = ", containerd image store" if engine["key"].endswith("-containerd") else ""
        major, minor = (int(part) for part in engine["api_version"].split("."))
        found.append(
            JudgedEngine(
                f"{engine['version']}{store}",
                (major, minor),
                passed_of[engine["key"]],
                len(result["specs"]),
                passed_of.get(f"{engine['key']}{FRONTED}"),
            )
        )
    return found


def page(engines: Sequence[JudgedEngine]) -> str:
    """The whole page in Markdown."""
    parts = [HEAD.format(oldest=_dotted(OLDEST_API), newest=_dotted(NEWEST_API))]
    parts.append(_row("Docker Engine", *(engine.title for engine in engines)))
    parts.append(_row("---", *("---" for _ in engines)))
    parts.append(_row("API", *(_dotted(engine.api_version) for engine in engines)))
    parts.append(_row("specs of critest passed", *(f"{engine.passed} of {engine.specs}" for engine in engines)))
    if any(engine.fronted is not None for engine in engines):
        fronted = ("not run" if engine.fronted is None else f"{engine.fronted} of {engine.specs}" for engine in engines)
        parts.append(_row("with the front of the runtime", *fronted))
    parts += [_row(feature.value, *(_cell(feature, engine) for engine in engines)) for feature in Feature]
    parts.append("\n## What happens without\n")
    for feature in Feature:
        parts.append(f"\n**{feature.value[0].upper()}{feature.value[1:]}.** Needs {needs(feature)}. {BELOW[feature]}\n")
    parts += [LOGS, STREAMS, NETWORK, FRONT, OUT_OF_MEMORY, EVERYWHERE]
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
