"""A pod network without a network: it keeps a book of ADDs and DELs, fails on order, and finds who breaks CNI's rules.

For tests of what uses a `PodNetwork`. It passes the checks of `crishim.testing.network_contract`.

    network = FakePodNetwork()
    network.script("attach", Hang())
    ...
    assert network.held == {}          # for every ADD one successful DEL
    assert network.violations == []
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from crishim.engine.simulated.clock import Clock, RealClock
from crishim.engine.simulated.faults import Fault, Match, Scripted
from crishim.engine.simulated.gate import Gate
from crishim.errors import InvalidArgument, NetworkFailed, NetworkNotReady
from crishim.network.api import Attached, NetworkStatus, PodAttachment, PodNetwork


class FakePodNetwork(PodNetwork):
    """A book of attachments.

    What is attached outlives `close`: a test may go on with it as with a network after a restart of the server. Faults
    are those of `crishim.engine.simulated`; an ADD that fails or hangs holds its address all the same, as a plugin
    that was cut off may.
    """

    name = "fake"

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.ready = True
        """Whether `status` says so; pods can be detached in any case."""
        self.held: dict[str, PodAttachment] = {}
        """Sandbox id to the pod, from the moment when ADD began until DEL succeeded."""
        self.ips: dict[str, str] = {}
        """Sandbox id to the address that it holds."""
        self.adds: Counter[str] = Counter()
        """Sandbox id to how many ADDs began."""
        self.dels: Counter[str] = Counter()
        """Sandbox id to how many DELs succeeded."""
        self.violations: list[str] = []
        """What a caller did against CNI's rules: ADD twice without DEL, DEL with other arguments than ADD."""
        self.pod_cidr = ""
        self._gate = Gate(clock or RealClock())
        self._next = 0

    def __repr__(self) -> str:
        return f"<FakePodNetwork {len(self.held)} held>"

    @property
    def calls(self) -> Counter[str]:
        """How often each async method was called."""
        return self._gate.calls

    async def called(self, method: str, count: int = 1) -> None:
        """Return once a method was called `count` times."""
        await self._gate.called(method, count)

    def script(self, method: str, fault: Fault, *, times: int | None = 1, match: Match | None = None) -> Scripted:
        """Let a fault strike the next `times` calls of `attach`, `detach`, `check` or `gc` (None: all)."""
        return self._gate.script.add(method, fault, times, match)

    def status(self) -> NetworkStatus:
        """Ready unless a test says otherwise."""
        if self.ready:
            return NetworkStatus(True)
        return NetworkStatus(False, "FakeNotReady", "a test made it so")

    def plan(self, pod: PodAttachment) -> Attached:
        """An empty configuration of version 1."""
        if not self.ready:
            raise NetworkNotReady("FakeNotReady: a test made it so")
        return Attached(self.name, config="fake 1", args=pod.uid)

    async def attach(self, pod: PodAttachment, planned: Attached) -> Attached:
        """Give the pod an address."""
        self.adds[pod.sandbox_id] += 1
        if pod.sandbox_id in self.held:
            self.violations.append(f"ADD of {pod.sandbox_id[:13]} without a DEL before")
        self.held[pod.sandbox_id] = pod
        self._next += 1
        ip = self.ips[pod.sandbox_id] = f"10.99.{self._next // 250}.{self._next % 250 + 1}"
        return await self._gate.answer(
            "attach", lambda: dataclasses.replace(planned, result=f'{{"ip": "{ip}"}}', ips=(ip,)), pod, planned
        )

    async def detach(self, pod: PodAttachment, attached: Attached | None) -> None:
        """Take the address back; the record is not needed for it."""
        if (added := self.held.get(pod.sandbox_id)) is not None and attached is not None and added != pod:
            self.violations.append(f"DEL of {pod.sandbox_id[:13]} with other arguments than ADD: {pod} != {added}")

        def release() -> None:
            self.dels[pod.sandbox_id] += 1
            self._release(pod.sandbox_id)

        await self._gate.answer("detach", release, pod, attached)

    async def check(self, pod: PodAttachment, attached: Attached) -> None:
        """Whether the address of the record is the one that is held."""

        def compare() -> None:
            if (self.ips.get(pod.sandbox_id),) != attached.ips:
                raise NetworkFailed(f"{pod.sandbox_id[:13]} does not hold {attached.ips}", sandbox=pod.sandbox_id)

        await self._gate.answer("check", compare, pod, attached)

    async def gc(self, valid: Mapping[str, Attached]) -> None:
        """Release what no record tells of."""

        def sweep() -> None:
            for sandbox_id in self.held.keys() - valid.keys():
                self._release(sandbox_id)

        await self._gate.answer("gc", sweep, valid)

    def _release(self, sandbox_id: str) -> None:
        self.held.pop(sandbox_id, None)
        self.ips.pop(sandbox_id, None)

    def set_pod_cidr(self, cidr: str) -> None:
        """Remember it."""
        if cidr == "bad":
            raise InvalidArgument(f"{cidr!r} is no range", field="runtime_config.network_config.pod_cidr")
        self.pod_cidr = cidr or self.pod_cidr

    async def start(self) -> None:
        """Nothing to prepare."""

    async def close(self) -> None:
        """Attachments stay."""
