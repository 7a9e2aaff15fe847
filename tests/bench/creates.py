"""CreateContainer as a client sees it, beside the raw engine's create with the very same configuration, interleaved."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import aiohttp

from crishim.cri.v1 import runtime_pb2 as cri
from crishim.testing.client import RPCS
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import container, pod
from tests.conformance.cri_client import GoClient

MUST = {"ordinary": 1.15, "fullest": 1.2}
"""How many times the raw engine's create the call may take."""
MOUNTS, VARIABLES, RULES = 200, 500, 1000
_WARM = 5


def fullest(image: str, folder: Path) -> cri.ContainerConfig:
    """A container with 200 mounts, 500 variables and a seccomp profile of 1,000 rules; `folder` gets its files."""
    rule: dict[str, Any] = {"names": ["personality"], "action": "SCMP_ACT_ERRNO"}
    compared = [{"index": 0, "value": number, "op": "SCMP_CMP_EQ"} for number in range(RULES)]
    rules = [rule | {"args": [argument]} for argument in compared]
    profile = folder / "profile.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}))
    mounts = []
    for number in range(MOUNTS):
        source = folder / f"m{number}"
        source.mkdir()
        mounts.append(cri.Mount(host_path=str(source), container_path=f"/m/{number}", readonly=number % 2 == 0))
    config = container(image)
    config.mounts.extend(mounts)
    config.envs.extend(cri.KeyValue(key=f"MORE_{number}", value=b"value") for number in range(VARIABLES))
    seccomp = cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref=str(profile))
    config.linux.security_context.seccomp.CopyFrom(seccomp)
    return config


def measure(served: Served, engine_socket: Path, image: str, folder: Path, rounds: int) -> list[Figure]:
    """Whole calls by the raw engine's time for the same, of the ordinary container and of the fullest.

    A whole call is that of the client which kubelets are made with; Python's is in the note.  The raw call is made by
    the HTTP client that crishim has, on one kept connection, with its body encoded beforehand.  Raises
    ToolsMissingError when the first client has not been built.
    """
    folder.mkdir()
    configs = {"ordinary": container(image), "fullest": fullest(image, folder)}
    with asyncio.Runner() as runner, GoClient(served.socket) as go:
        raw = RawEngine(runner, engine_socket)
        try:
            return [_compare(served, go, raw, name, config, rounds) for name, config in configs.items()]
        finally:
            raw.close()


class RawEngine:
    """The engine's API by aiohttp, on one kept connection."""

    def __init__(self, runner: asyncio.Runner, socket: Path) -> None:
        self._runner = runner
        self._session: aiohttp.ClientSession = runner.run(self._open(socket))

    @staticmethod
    async def _open(socket: Path) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket), limit=1))

    def call(self, method: str, path: str, body: bytes = b"") -> tuple[float, Any]:
        """Milliseconds of a call, and the JSON of its answer.  Raises aiohttp.ClientResponseError."""
        return self._runner.run(self._call(method, path, body))

    async def _call(self, method: str, path: str, body: bytes) -> tuple[float, Any]:
        headers = {"Content-Type": "application/json"} if body else {}
        began = time.perf_counter()
        async with self._session.request(
            method, f"http://engine{path}", data=body or None, headers=headers, raise_for_status=True
        ) as response:
            text = await response.read()
        taken = (time.perf_counter() - began) * 1000
        return taken, json.loads(text) if text else None

    def close(self) -> None:
        """Close the connection."""
        self._runner.run(self._session.close())


def _compare(
    served: Served, go: GoClient, raw: RawEngine, name: str, config: cri.ContainerConfig, rounds: int
) -> Figure:
    client, sandbox_config = served.client, pod(910_000)
    sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=sandbox_config)).pod_sandbox_id
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config, sandbox_config=sandbox_config)
    wire = request.SerializeToString()
    by_go, by_python, theirs = [], [], []
    body = b""
    for number in range(rounds + _WARM):
        timed = go.call(RPCS["CreateContainer"][0], wire)
        by_go += timed.milliseconds
        made = cri.CreateContainerResponse.FromString(timed.response).container_id
        body = body or json.dumps(_same(raw.call("GET", f"/containers/{made}/json")[1])).encode()
        client.RemoveContainer(cri.RemoveContainerRequest(container_id=made))

        taken, answer = raw.call("POST", f"/containers/create?name=raw-{name}-{number}", body)
        theirs.append(taken)
        raw.call("DELETE", f"/containers/{answer['Id']}?force=1")

        began = time.perf_counter()
        made = client.CreateContainer(request).container_id
        by_python.append((time.perf_counter() - began) * 1000)
        client.RemoveContainer(cri.RemoveContainerRequest(container_id=made))
    client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    whole, python, engine = (summarize("", samples[_WARM:]) for samples in (by_go, by_python, theirs))
    note = f"whole call {whole.median} ms (by Python's client {python.median} ms), raw engine {engine.median} ms"
    ratios = [taken / engine.median for taken in by_go[_WARM:]]
    return summarize(f"CreateContainer, {name}, by the raw engine's", ratios, "×", MUST[name], note)


def _same(shown: dict[str, Any]) -> dict[str, Any]:
    """The body that makes a container like the one that is shown; the hostname there is the sandbox's."""
    return {**shown["Config"], "Hostname": "", "Domainname": "", "HostConfig": shown["HostConfig"]}
