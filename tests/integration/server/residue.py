"""What pods may leave behind, looked for in every place where crishim puts something."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import grpc

from cni.testing import ScriptedPlugin
from crishim.cri.v1 import runtime_pb2 as pb
from tests.env import firewall, linux, processes
from tests.env.cni import CniDirs
from tests.env.http_api import EngineApi, EngineApiError
from tests.integration.server.serving import CALL, CrishimServer
from tests.integration.server.waiting import settles

LABEL = "io.kubernetes.docker.type"
POOLED = 16
"""Connections to the engine that may wait for their next use."""
POOL_IDLE = 40.0
"""Seconds after which such connections are closed: the HTTP client looks each 15 s for those that waited 15 s."""
LOG_WRITER = "log writer"
"""Task that is there from the first log on."""
BRIDGES = "br-"
"""Begin of the names of bridges, which stay when their last pod goes."""


@dataclass(frozen=True)
class Quiet:
    """A server without pods, to compare with."""

    descriptors: Counter[str]
    tasks: Counter[str]
    links: frozenset[str]

    @classmethod
    def of(cls, server: CrishimServer) -> Quiet:
        """Look now: the server serves and nothing is under way."""
        server.close_client()
        return cls(server.descriptors(), server.tasks(), frozenset(os.listdir("/sys/class/net")))


def assert_nothing_left(
    server: CrishimServer, api: EngineApi, quiet: Quiet | None = None, pooled: int = POOLED
) -> None:
    """Every place is empty. With `quiet`: the server itself is as it was then, but for `pooled` sockets."""
    found = settles(lambda: list(_everywhere(server, api)))
    if quiet is not None and not found:
        server.close_client()
        found = settles(lambda: list(_itself(server, quiet, pooled)), POOL_IDLE)
    assert not found, "left behind:\n  " + "\n  ".join(found) + f"\nthe log: {server.log}"


def assert_store_empty(server: CrishimServer) -> None:
    """The store has no record of a sandbox. The server is down: it holds its database alone."""
    assert not server.running
    assert stored(server) == []


def stored(server: CrishimServer) -> list[str]:
    """Sandboxes in the store (`sqlite` or `file`) of a server that is down."""
    if "--checkpoint=file" in server.flags:
        return [path.name for path in (server.state / "checkpoint" / "sandboxes").iterdir()]
    with tempfile.TemporaryDirectory() as folder:
        # A copy, which needs no lock.
        for name in ("checkpoint.db", "checkpoint.db-wal"):
            if (server.state / name).exists():
                shutil.copy(server.state / name, folder)
        with closing(sqlite3.connect(Path(folder, "checkpoint.db"))) as database:
            return [row[0] for row in database.execute("SELECT id FROM sandboxes")]


def _everywhere(server: CrishimServer, api: EngineApi) -> Iterator[str]:
    yield from _listed(server)
    yield from (f"engine: {names}" for names in engine_containers(api))
    yield from (f"pin: {path.name}" for path in server.pins.glob("*"))
    yield from _mounts(server.folder)
    yield from (f"log: {path}" for path in server.logs.rglob("*") if path.is_symlink())
    if server.cni is not None:
        yield from (f"lease: {path}" for path in leases(server.cni))
        yield from (f"CNI result: {path}" for path in server.state.rglob("results/*"))
        yield from (f"netfilter: {line}" for line in port_rules())
    if server.embedded:
        yield from embedded_residue(server)


def embedded_residue(server: CrishimServer) -> Iterator[str]:
    """What pods have on the embedded network: addresses, ports of its bridge, and all rules."""
    leases = (server.folder / "run" / "networks").glob("*/*")
    yield from (f"lease: {path}" for path in leases if path.name[0].isdigit() or ":" in path.name)
    yield from (f"port: {path}" for path in Path("/sys/class/net/crishim0/brif").glob("*"))
    yield from (f"netfilter: {rule}" for rule in firewall.rules() if " crishim " in f" {rule} ")


def _listed(server: CrishimServer) -> Iterator[str]:
    try:
        for sandbox in server.client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=CALL).items:
            yield f"listed sandbox: {sandbox.id[:13]} {sandbox.metadata.name}"
        for container in server.client.ListContainers(pb.ListContainersRequest(), timeout=CALL).containers:
            yield f"listed container: {container.id[:13]} {container.metadata.name}"
    except grpc.RpcError as error:
        yield f"the lists cannot be had: {error}"


def engine_containers(api: EngineApi) -> list[str]:
    """Names of all of our containers in the engine."""
    query = {"all": "1", "filters": f'{{"label": ["{LABEL}"]}}'}
    return [" ".join(row["Names"] or [row["Id"]]) for row in api.call("GET", "/containers/json", query)]


def remove_containers(api: EngineApi) -> None:
    """Take all of our containers out of the engine, by force."""
    query = {"all": "1", "filters": f'{{"label": ["{LABEL}"]}}'}
    for row in api.call("GET", "/containers/json", query):
        api.call("DELETE", f"/containers/{row['Id']}", {"force": "1", "v": "1"})


def astray(server: CrishimServer, api: EngineApi) -> list[str]:
    """Containers, and processes of anchored pods, that run and are not in the network namespace that is pinned for
    their pod."""
    query = {"filters": f'{{"label": ["{LABEL}", "io.kubernetes.sandbox.id"]}}'}
    found = []
    for row in api.call("GET", "/containers/json", query):
        pin = server.pins / f"crishim-{row['Labels']['io.kubernetes.sandbox.id']}"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, EngineApiError):  # it has ended meanwhile
            pid = api.call("GET", f"/containers/{row['Id']}/json")["State"]["Pid"]
            lives = os.stat(f"/proc/{pid}/ns/net").st_ino if pid else 0
            if lives and (not pin.exists() or pin.stat().st_ino != lives):
                found.append(f"{row['Names']}: {lives}, pinned: {pin.exists() and pin.stat().st_ino}")
    return found


def remove_anchors(api: EngineApi) -> None:
    """Take the anchors, which stay when the last pod goes, out of the engine."""
    query = {"all": "1", "filters": '{"label": ["io.crishim.anchor"]}'}
    for row in api.call("GET", "/containers/json", query):
        api.call("DELETE", f"/containers/{row['Id']}", {"force": "1"})


def _mounts(folder: Path) -> Iterator[str]:
    """Mounts below the server's folder but that of the folder of pins on itself."""
    for point, fstype, *_ in linux.mounts():
        if Path(point).is_relative_to(folder) and point != str(folder / "netns"):
            yield f"mount: {point} ({fstype})"


def leases(cni: CniDirs) -> list[Path]:
    """Addresses that host-local has given out: a file for each, named by it."""
    return [path for path in cni.data.glob("*/*") if path.name[0].isdigit() or ":" in path.name]


def port_rules() -> list[str]:
    """portmap's chains of pods' own (`CNI-DN-` and a hash)."""
    listed = subprocess.run(["iptables", "-t", "nat", "-S"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if line.startswith("-N CNI-DN-")]


def _itself(server: CrishimServer, quiet: Quiet, pooled: int) -> Iterator[str]:
    """Differences to `quiet`. No call is under way, so that gRPC has no task for one either."""
    now = Quiet.of(server)
    for name in now.links - quiet.links:
        if name != "crishim0" and (server.cni is None or not name.startswith(BRIDGES)):
            yield f"link: {name}"
    for kind, count in now.descriptors.items():
        if count > quiet.descriptors[kind] + (pooled if kind == "socket" else 0):
            yield f"descriptors: {count} × {kind}, before {quiet.descriptors[kind]}"
    yield from (f"task: {count} × {name}" for name, count in (now.tasks - quiet.tasks).items() if name != LOG_WRITER)
    yield from (f"log open: {path}" for path in server.open_logs())
    yield from (f"process of the server: {words}" for words in server.children())


def unreleased(tally: ScriptedPlugin) -> list[str]:
    """Sandboxes that were added and not successfully deleted after it."""
    open_adds: Counter[str] = Counter()
    for call in tally.calls("ADD", "DEL"):
        sandbox_id = call.environment["CNI_CONTAINERID"]
        if call.verb == "ADD":
            open_adds[sandbox_id] += 1
        elif call.status == 0:
            open_adds.pop(sandbox_id, None)
    return list(open_adds)


def strays(words: str) -> list[str]:
    """Processes of the world with these words in their command line."""
    lines = (processes.command_line(pid) for pid in processes.pids() if pid != os.getpid())
    return [line for line in lines if words in line]
