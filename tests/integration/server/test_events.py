"""GetContainerEvents on the real engine: what happens to pods, behind our back too, to many listeners."""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient
from tests.env.engine import TestEngine
from tests.integration.server.pods import Pod, make_container
from tests.integration.server.serving import CALL, CrishimServer

pytestmark = pytest.mark.engine
LIFE = ["CREATED", "STARTED", "STOPPED", "DELETED"]


class Listening:
    """A stream of events, read by a thread."""

    def __init__(self, server: CrishimServer) -> None:
        self._client = CRIClient(server.endpoint)
        self.events: queue.Queue[pb.ContainerEventResponse] = queue.Queue()
        self.arrivals: dict[tuple[str, str], float] = {}
        self._stream: Any = self._client.GetContainerEvents(pb.GetEventsRequest())
        self._stream.initial_metadata()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            for event in self._stream:
                self.arrivals[kind(event), event.container_id] = time.monotonic()
                self.events.put(event)
        except grpc.RpcError:
            pass  # cancelled, or the server has ended

    def until(self, name: str, object_id: str) -> list[pb.ContainerEventResponse]:
        """All events up to this one."""
        found: list[pb.ContainerEventResponse] = []
        while not found or (kind(found[-1]), found[-1].container_id) != (name, object_id):
            found.append(self.events.get(timeout=CALL))
        return found

    def close(self) -> None:
        self._stream.cancel()
        self._thread.join(CALL)
        self._client.close()


@contextmanager
def listening(server: CrishimServer, count: int = 1) -> Iterator[list[Listening]]:
    found = [Listening(server) for _ in range(count)]
    try:
        yield found
    finally:
        for one in found:
            one.close()


def kind(event: pb.ContainerEventResponse) -> str:
    return pb.ContainerEventType.Name(event.container_event_type).split("_")[1]


def lives(events: list[pb.ContainerEventResponse]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for event in events:
        found[event.container_id].append(kind(event))
    return dict(found)


def test_pods_come_and_go_for_many_listeners(server: CrishimServer, scaled: Callable[[int], int]) -> None:
    pods = {}
    with listening(server, 10) as listeners:
        for _ in range(scaled(50)):
            pod = Pod(server)
            pods[pod.id] = pod.start(make_container(command=["sh", "-c", "exit 3"]))
            pod.ended(pods[pod.id])
            pod.remove()
        told = [listener.until("DELETED", pod.id) for listener in listeners]
    assert all(events == told[0] for events in told), "one order for all"
    assert lives(told[0]) == dict.fromkeys([*pods, *pods.values()], LIFE)
    times = [event.created_at for event in told[0]]
    assert times == sorted(set(times))
    for event in told[0]:
        assert event.pod_sandbox_status.metadata.uid
        if kind(event) == "STOPPED" and event.container_id in pods.values():
            assert [status.exit_code for status in event.containers_statuses] == [3]


def test_what_others_do_is_told_too(server: CrishimServer, engine: TestEngine) -> None:
    pod = Pod(server)
    killed, removed, restarted = [pod.start(make_container(name)) for name in ("killed", "removed", "restarted")]
    with listening(server) as (listener,):
        engine.api.call("POST", f"/containers/{killed}/kill")
        assert lives(listener.until("STOPPED", killed)) == {killed: ["STOPPED"]}
        engine.api.call("DELETE", f"/containers/{removed}", {"force": "1"})
        assert lives(listener.until("DELETED", removed)) == {removed: ["STOPPED", "DELETED"]}
        engine.api.call("POST", f"/containers/{restarted}/restart", {"t": "0"})
        assert lives(listener.until("STARTED", restarted)) == {restarted: ["STOPPED", "STARTED"]}


def test_an_exit_is_told_soon(server: CrishimServer, engine: TestEngine) -> None:
    """No limit is asserted that a busy machine could miss: the figure is for the report."""
    pod = Pod(server)
    delays = []
    with listening(server) as (listener,):
        for number in range(5):
            container = pod.start(make_container(str(number)))
            listener.until("STARTED", container)
            killed = time.monotonic()
            engine.api.call("POST", f"/containers/{container}/kill")
            listener.until("STOPPED", container)
            delays.append(listener.arrivals["STOPPED", container] - killed)
    print(f"from a kill to the listener: median {statistics.median(delays) * 1000:.0f} ms")
    assert min(delays) < 5, "it waits for a comparison with the engine instead of its event"


def test_a_stream_outlives_the_engine(
    new_engine: Callable[..., TestEngine], new_server: Callable[..., CrishimServer]
) -> None:
    """An outage neither ends a stream nor loses what happened in it."""
    from tests.env import images

    engine = new_engine()
    images.busybox().load(engine.api, images.BUSYBOX_REF)
    server = new_server(engine_url=engine.url)
    server.start()
    pod = Pod(server)
    container = pod.start()
    with listening(server) as (listener,):
        engine.restart()  # without live-restore all containers end
        server.wait_ready()
        events = listener.until("STOPPED", container)
        assert lives(events)[container] == ["STOPPED"]
        pod.remove()
        events += listener.until("DELETED", pod.id)
    assert lives(events) == {pod.id: ["STOPPED", "DELETED"], container: ["STOPPED", "DELETED"]}
    assert server.stop() == 0
