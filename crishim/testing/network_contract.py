"""What every `crishim.network.api.PodNetwork` must do, as plain async functions `check_…(place)`.

Run each of `CHECKS` with a `Place` whose network is ready and whose pods' namespaces exist.  A check that fails raises
AssertionError.  The backends that come with crishim run the same ones.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_network(check, tmp_path):
        await check(Place(make=lambda: MyNetwork(...), pod=make_pod, leftovers=list_leases))
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from crishim.network.api import Attached, PodAttachment, PodNetwork


@dataclass(frozen=True)
class Place:
    """A network under test and what the checks need around it."""

    make: Callable[[], PodNetwork]
    """The network as a new process would have it: equal settings, nothing remembered in memory."""
    pod: Callable[[int], PodAttachment]
    """The pod of this number (0, 1, …): ids of its own, a namespace of its own that exists."""
    leftovers: Callable[[], Sequence[str]]
    """All that attachments hold at this moment (addresses, links, rules), by any names; empty when none holds any."""


Check = Callable[[Place], Awaitable[None]]
"""A check of the contract."""


async def check_status_is_ready_and_cheap_to_repeat(place: Place) -> None:
    """A ready status carries no reason, and asking changes nothing."""
    network = await _started(place)
    first = network.status()
    assert first.ready, first
    assert (first.reason, first.message) == ("", "")
    assert network.status() == first
    await network.close()


async def check_plan_touches_nothing_and_says_how(place: Place) -> None:
    """Two plans of one pod are equal; they name the backend and tell no result."""
    network = await _started(place)
    planned = network.plan(place.pod(0))
    assert planned == network.plan(place.pod(0))
    assert planned.backend
    assert (planned.result, planned.ips) == ("", ())
    assert list(place.leftovers()) == []
    await network.close()


async def check_attach_completes_the_plan(place: Place) -> None:
    """The record keeps what was planned; addresses are plain and differ between pods."""
    network = await _started(place)
    records = [await _attached(network, place.pod(number)) for number in (0, 1)]
    for number, record in enumerate(records):
        planned = network.plan(place.pod(number))
        assert dataclasses.replace(record, result="", ips=()) == planned
        assert all(ip and "/" not in ip for ip in record.ips)
    addresses = [ip for record in records for ip in record.ips]
    assert len(set(addresses)) == len(addresses), addresses
    for number, record in enumerate(records):
        await network.check(place.pod(number), record)
        await network.detach(place.pod(number), record)
    assert await _left(place, network, 0, 1) == []
    await network.close()


async def check_detach_may_come_again(place: Place) -> None:
    """Detach of the detached, and of what was planned only, is success."""
    network = await _started(place)
    pod = place.pod(0)
    planned = network.plan(pod)
    await network.detach(pod, planned)
    record = await network.attach(pod, planned)
    for attached in (record, record, planned, None):
        await network.detach(pod, attached)
        assert await _left(place, network) == []
    await network.close()


async def check_detach_in_another_process(place: Place) -> None:
    """The record alone, through text and back, is enough; so is the plan when attach's answer was lost."""
    for keep_result in (True, False):
        network = await _started(place)
        pod = place.pod(0)
        planned = network.plan(pod)
        record = await network.attach(pod, planned)
        await network.close()
        later = await _started(place)
        await later.detach(pod, _through_text(record if keep_result else planned))
        assert await _left(place, later) == []
        await later.close()


async def check_detach_without_record(place: Place) -> None:
    """A lost record: what the backend would plan now is undone."""
    network = await _started(place)
    await _attached(network, place.pod(0))
    await network.detach(place.pod(0), None)
    assert await _left(place, network) == []
    await network.close()


async def check_a_cancelled_attach_can_be_detached(place: Place) -> None:
    """Cancelled at its beginning and a little later, detach finds all of it; the pod can be attached again."""
    network = await _started(place)
    pod = place.pod(0)
    for turns in (0, 1, 5, 50):
        planned = network.plan(pod)
        task = asyncio.create_task(network.attach(pod, planned))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await network.detach(pod, planned)
        assert await _left(place, network) == [], turns
    record = await _attached(network, pod)
    await network.detach(pod, record)
    await network.close()


async def check_gc_spares_the_valid(place: Place) -> None:
    """An attachment in the list still checks out afterwards."""
    network = await _started(place)
    pod = place.pod(0)
    record = await _attached(network, pod)
    await network.gc({pod.sandbox_id: record})
    await network.check(pod, record)
    await network.detach(pod, record)
    await network.gc({})
    assert await _left(place, network) == []
    await network.close()


async def check_pods_side_by_side(place: Place) -> None:
    """Several at once are attached and detached without disturbing each other."""
    network = await _started(place)
    pods = [place.pod(number) for number in range(4)]
    records = await asyncio.gather(*(_attached(network, pod) for pod in pods))
    addresses = [ip for record in records for ip in record.ips]
    assert len(set(addresses)) == len(addresses), addresses
    await asyncio.gather(*(network.detach(pod, record) for pod, record in zip(pods, records, strict=True)))
    assert await _left(place, network, *range(4)) == []
    await network.close()


CHECKS: tuple[Check, ...] = tuple(check for name, check in list(vars().items()) if name.startswith("check_"))
"""All checks, in reading order."""


async def _started(place: Place) -> PodNetwork:
    network = place.make()
    await network.start()
    return network


async def _attached(network: PodNetwork, pod: PodAttachment) -> Attached:
    return await network.attach(pod, network.plan(pod))


async def _left(place: Place, network: PodNetwork, *pods: int) -> list[str]:
    """What is left of the pods (the first one unless told) once `network` says that their detach is over."""
    for number in pods or (0,):
        await network.settle(place.pod(number).sandbox_id)
    return list(place.leftovers())


def _through_text(record: Attached) -> Attached:
    """The record as a checkpoint store gives it back."""
    kept = json.loads(json.dumps(dataclasses.asdict(record)))
    return Attached(**kept | {"ips": tuple(kept["ips"])})
