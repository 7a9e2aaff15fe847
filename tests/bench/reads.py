"""What a client sees of the calls that a kubelet makes every second."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path

from google.protobuf.message import Message

from crishim.cri.v1 import runtime_pb2 as cri
from crishim.testing.client import RPCS
from tests.bench import bare
from tests.bench.figures import Figure, summarize
from tests.bench.lean import LeanClient
from tests.bench.serve import Served
from tests.bench.verbs import container, pod
from tests.conformance.cri_client import GoClient

Row = Callable[[int], list[float]]
"""Makes so many calls, one after the other, and returns the milliseconds of each."""
Timed = tuple[str, Row, float]
"""A call's name, rows of it, and the milliseconds that it may take; 0: nothing is demanded."""
_GO, _PYTHON, _LEAN = "by grpc-go", "by Python's client", "by a client that costs nothing"
_NOTHING = "a call that does nothing, bare grpc.aio"
_ROUNDS = 300
_IN_A_ROW = 20
"""Calls of one kind after the other: a client that asks again.  The first of each row is that of one who comes back,
and is not counted."""


def measure_status(served: Served, image: str, folder: Path) -> list[Figure]:
    """Status calls and ListImages with one pod on a real engine, in rows, in turns with calls to a server that does
    nothing: what any unary call costs on this machine in this run.

    By the client that kubelets and crictl are made with (what is demanded is demanded of it), by Python's, and by one
    that costs next to nothing itself (`lean`).  Raises ToolsMissingError when the first has not been built.
    """
    client = served.client
    config = pod(900_000)
    sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
    made = client.CreateContainer(
        cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container(image), sandbox_config=config)
    ).container_id
    client.StartContainer(cri.StartContainerRequest(container_id=made))
    asked: list[tuple[str, Message, float]] = [
        ("Version", cri.VersionRequest(), 0.0),
        ("PodSandboxStatus", cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox), 1.0),
        ("ContainerStatus", cri.ContainerStatusRequest(container_id=made), 0.7),
        ("ImageStatus", cri.ImageStatusRequest(image=cri.ImageSpec(image=image)), 0.5),
        ("ListImages", cri.ListImagesRequest(), 0.5),
    ]
    with (
        bare.serving(folder) as socket,
        GoClient(socket) as bare_go,
        GoClient(served.socket) as go,
        bare.calling(socket) as bare_call,
        LeanClient(socket) as bare_lean,
        LeanClient(served.socket) as lean,
    ):
        calls: list[Timed] = [(f"{_NOTHING}, {_GO}", _go_row(bare_go, bare.PATH, b""), 0.0)]
        calls += [
            (f"{name}, {_GO}", _go_row(go, RPCS[name][0], wanted.SerializeToString()), must)
            for name, wanted, must in asked
        ]
        calls.append((f"{_NOTHING}, {_PYTHON}", _row(bare_call), 0.0))
        for name, wanted, _ in asked:
            calls.append((f"{name}, {_PYTHON}", _row(functools.partial(getattr(client, name), wanted)), 0.0))
        calls.append((f"{_NOTHING}, {_LEAN}", _row(functools.partial(bare_lean.call, bare.PATH, b"")), 0.0))
        for name, wanted, _ in asked:
            ask = functools.partial(lean.call, RPCS[name][0], wanted.SerializeToString())
            calls.append((f"{name}, {_LEAN}", _row(ask), 0.0))
        figures = _in_turns(*calls)
    client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    return figures


def measure_lists(served: Served, image: str, sizes: tuple[int, ...]) -> list[Figure]:
    """ListContainers by number of containers; ten to a pod."""
    client, count = served.client, 0
    figures: list[Figure] = []
    everything = cri.ListContainersRequest()
    for size in sizes:
        while count < size:
            config = pod(count)
            sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
            for number in range(10):
                wanted = container(image)
                wanted.metadata.attempt = number
                request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)
                made = client.CreateContainer(request).container_id
                client.StartContainer(cri.StartContainerRequest(container_id=made))
                count += 1
        must = 2.0 if size == 500 else 0.0
        figures.append(_timed(f"ListContainers, {size} containers", lambda: client.ListContainers(everything), must))
    return figures


def _timed(name: str, call: Callable[[], object], must: float) -> Figure:
    return _in_turns((name, _row(call), must))[0]


def _row(call: Callable[[], object]) -> Row:
    """Rows of a call that is made and timed here."""

    def make(times: int) -> list[float]:
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            call()
            taken.append((time.perf_counter() - began) * 1000)
        return taken

    return make


def _go_row(client: GoClient, method: str, request: bytes) -> Row:
    """Rows of a call that is made and timed in the Go program."""
    return lambda times: client.call(method, request, times).milliseconds


def _in_turns(*calls: Timed) -> list[Figure]:
    """A row of each, then again: what disturbs the machine meanwhile disturbs them alike.  The first round warms up."""
    samples: dict[str, list[float]] = {name: [] for name, _, _ in calls}
    for turn in range(-1, _ROUNDS // _IN_A_ROW):
        for name, row, _ in calls:
            taken = row(1 + _IN_A_ROW)[1:]
            if turn >= 0:
                samples[name] += taken
    return [summarize(name, samples[name], must=must) for name, _, must in calls]
