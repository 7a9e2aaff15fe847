"""CreateContainer as a client sees it, beside the raw engine's create with the very same configuration, interleaved."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import container, pod
from tests.env.http_api import EngineApi

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


def measure(served: Served, api: EngineApi, image: str, folder: Path, rounds: int) -> list[Figure]:
    """Whole calls by the raw engine's time for the same, of the ordinary container and of the fullest."""
    folder.mkdir()
    configs = {"ordinary": container(image), "fullest": fullest(image, folder)}
    return [_compare(served, api, name, config, rounds) for name, config in configs.items()]


def _compare(served: Served, api: EngineApi, name: str, config: cri.ContainerConfig, rounds: int) -> Figure:
    client, sandbox_config = served.client, pod(910_000)
    sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=sandbox_config)).pod_sandbox_id
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config, sandbox_config=sandbox_config)
    ours, raw = [], []
    body: dict[str, Any] = {}
    for _ in range(rounds + _WARM):
        taken, answer = _timed(lambda: client.CreateContainer(request))
        ours.append(taken)
        body = body or _same(api.call("GET", f"/containers/{answer.container_id}/json"))
        client.RemoveContainer(cri.RemoveContainerRequest(container_id=answer.container_id))
        taken, made = _timed(partial(api.call, "POST", "/containers/create", json_body=body))
        raw.append(taken)
        api.call("DELETE", f"/containers/{made['Id']}?force=1")
    client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    whole, engine = summarize("", ours[_WARM:]), summarize("", raw[_WARM:])
    ratios = [taken / engine.median for taken in ours[_WARM:]]
    note = f"whole call {whole.median} ms, raw engine {engine.median} ms"
    return summarize(f"CreateContainer, {name}, by the raw engine's", ratios, "×", MUST[name], note)


def _same(shown: dict[str, Any]) -> dict[str, Any]:
    """The body that makes a container like the one that is shown; the hostname there is the sandbox's."""
    return {**shown["Config"], "Hostname": "", "Domainname": "", "HostConfig": shown["HostConfig"]}


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = call()
    return (time.perf_counter() - began) * 1000, answer
