"""Attaching and detaching by the embedded plugins and by the reference ones, in turns, with the same conflist.

``python -m tests.bench.network [--rounds N]``, in a test world; part of ``make bench``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cni import CNI, Attachment, ExecInvoker, NetworkConfList, parse_conflist
from cni.plugins.registry import EmbeddedInvoker
from tests.bench.figures import Figure, summarize
from tests.env.cni import PLUGINS

MANY = 100
AT_ONCE = 10
_SECONDS = 1.0
_PUMP = """
import socket, sys, time
if sys.argv[1] == "serve":
    with socket.create_server((sys.argv[2], 5201)) as server:
        print(flush=True)
        connection, _ = server.accept()
        block, total, began = bytearray(1 << 20), 0, time.monotonic()
        while count := connection.recv_into(block):
            total += count
        print(total / (time.monotonic() - began) / 1e6)
else:
    with socket.create_connection((sys.argv[2], 5201)) as connection:
        block, until = bytes(1 << 20), time.monotonic() + float(sys.argv[3])
        while time.monotonic() < until:
            connection.sendall(block)
"""


class Side:
    """One kind of plugins on a bridge of its own; the namespaces are shared."""

    def __init__(self, name: str, number: int, invoker: ExecInvoker | EmbeddedInvoker, data: Path) -> None:
        self.name, self.bridge = name, f"benchbr{number}"
        self._invoker = invoker
        self._cni = CNI(invoker)
        ipam = {"type": "host-local", "dataDir": str(data), "ranges": [[{"subnet": f"10.9{number}.0.0/16"}]]}
        plugin = {"type": "bridge", "bridge": self.bridge, "isDefaultGateway": True, "ipMasq": True, "ipam": ipam}
        self._network: NetworkConfList = parse_conflist(
            json.dumps({"cniVersion": "1.0.0", "name": f"bench{number}", "plugins": [plugin]})
        )
        self.attach_ms: list[float] = []
        self.detach_ms: list[float] = []

    async def attach(self, netns: str, container_id: str) -> str:
        """Attach; the address."""
        began = time.perf_counter()
        result = await self._cni.add(self._network, self._attachment(netns, container_id))
        self.attach_ms.append((time.perf_counter() - began) * 1000)
        return result.ips[0].ip

    async def detach(self, netns: str, container_id: str) -> None:
        """Detach; what is put off is waited for, but not measured."""
        began = time.perf_counter()
        await self._cni.delete(self._network, self._attachment(netns, container_id))
        self.detach_ms.append((time.perf_counter() - began) * 1000)
        if isinstance(self._invoker, EmbeddedInvoker):
            await self._invoker.settle(container_id)

    @staticmethod
    def _attachment(netns: str, container_id: str) -> Attachment:
        return Attachment(container_id=container_id, ifname="eth0", netns=netns)


@contextlib.contextmanager
def _namespaces(count: int) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        paths = []
        for _ in range(count):
            command = ["unshare", "--net", "sh", "-c", "echo; exec sleep 10000"]
            holder = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(holder.kill)
            assert holder.stdout is not None
            holder.stdout.read(1)
            paths.append(f"/proc/{holder.pid}/ns/net")
        yield paths


def pump(source: str, target: str, address: str) -> float:
    """MB/s of one connection from a namespace ("": the host) to another."""
    enter = [] if not source else ["nsenter", f"--net={source}"]
    serve = ["nsenter", f"--net={target}", sys.executable, "-c", _PUMP, "serve", address]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        subprocess.run([*enter, sys.executable, "-c", _PUMP, "send", address, str(_SECONDS)], check=True)
        return float(server.stdout.read())


async def _rounds(sides: list[Side], netns: str, rounds: int) -> None:
    for number, side in itertools.product(range(rounds), sides):
        await side.attach(netns, f"c{number}")
        await side.detach(netns, f"c{number}")


async def _many(side: Side, paths: list[str]) -> float:
    """Seconds for attaching all, some at a time.  Raises RuntimeError when an address was given out twice."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> str:
        async with turn:
            return await side.attach(paths[number], f"m{number}")

    began = time.perf_counter()
    addresses = await asyncio.gather(*(one(number) for number in range(len(paths))))
    took = time.perf_counter() - began
    if len(set(addresses)) != len(paths):
        raise RuntimeError(f"{side.name}: an address was given out twice")
    for number, path in enumerate(paths):
        await side.detach(path, f"m{number}")
    return took


async def _throughput(sides: list[Side], paths: list[str], rounds: int) -> dict[str, list[list[float]]]:
    """MB/s by way and side; the sides in turns."""
    seen: dict[str, list[list[float]]] = {"pod to pod": [[] for _ in sides], "host to pod": [[] for _ in sides]}
    pairs = [paths[2 * number : 2 * number + 2] for number in range(len(sides))]
    addresses = [
        [await side.attach(path, path[6:-7]) for path in pair] for side, pair in zip(sides, pairs, strict=True)
    ]
    for turn, place in itertools.product(range(rounds), range(len(sides))):
        number = (turn + place) % len(sides)  # who comes first is not always the same
        (first, second), (one, two) = pairs[number], addresses[number]
        seen["pod to pod"][number].append(await asyncio.to_thread(pump, first, second, two))
        seen["host to pod"][number].append(await asyncio.to_thread(pump, "", first, one))
    for side, pair in zip(sides, pairs, strict=True):
        for path in pair:
            await side.detach(path, path[6:-7])
    return seen


def measure(folder: Path, rounds: int = 40, pumps: int = 16) -> list[Figure]:
    """Run both sides in turns and summarize."""
    reference = next(place for place in PLUGINS if (place / "bridge").exists())
    ours = Side("embedded", 1, EmbeddedInvoker(), folder / "ours")
    theirs = Side("reference plugins", 2, ExecInvoker([str(reference)]), folder / "theirs")
    sides = [ours, theirs]
    try:
        with _namespaces(MANY) as paths:
            asyncio.run(_rounds(sides, paths[0], rounds))
            figures = [
                summarize("attach, embedded", ours.attach_ms, must=6),
                summarize("attach, reference bridge plugin", theirs.attach_ms),
                summarize("detach, embedded", ours.detach_ms, must=10, note="the kernel ends the pair behind it"),
                summarize("detach, reference bridge plugin", theirs.detach_ms),
            ]
            ratio = figures[0].median / figures[1].median
            figures.append(summarize("attach, embedded / reference", [ratio], "×", must=round(1 / 3, 3)))
            took = [asyncio.run(_many(side, paths)) * 1000 for side in (ours, theirs)]
            figures.append(summarize(f"{MANY} attached, {AT_ONCE} at a time, embedded", took[:1], must=1500))
            figures.append(summarize(f"{MANY} attached, {AT_ONCE} at a time, reference", took[1:]))
            for way, (own, other) in asyncio.run(_throughput(sides, paths, pumps)).items():
                loss = statistics.median(other) / statistics.median(own)
                note = f"embedded: {statistics.median(own):.0f} MB/s, reference: {statistics.median(other):.0f} MB/s"
                figures.append(summarize(f"{way}, throughput, reference / embedded", [loss], "×", 1.02, note))
    finally:
        for side in sides:
            subprocess.run(["ip", "link", "del", side.bridge], check=False, capture_output=True)
    return figures


def main() -> int:
    """Measure and print; exit status 1 if a demanded figure was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.network")
    parser.add_argument("--rounds", type=int, default=40)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), chosen.rounds)
    for figure in figures:
        must = f"must ≤ {figure.must:g}" if figure.must else ""
        print(f"{figure.name:45} {figure.median:9.3f} p90 {figure.p90:9.3f} {figure.unit:3} {must} {figure.note}")
    return int(any(figure.must and figure.median > figure.must for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
