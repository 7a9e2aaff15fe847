"""The verbs over a fake invoker: order, what is handed on, what stops them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cni import CNI, Attachment, Invoker, parse_conflist, parse_result
from cni.errors import (
    AttachmentError,
    CNIError,
    IncompatibleVersions,
    InvocationFailed,
    PluginCrashed,
    PluginError,
    PluginNotFound,
    UnsupportedVerb,
)


class FakeInvoker(Invoker):
    """Answers from a table (plugin, verb) → bytes or error; remembers what it was asked."""

    def __init__(self, **answers: bytes | Exception) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str]] = []
        self.environments: list[Mapping[str, str]] = []
        self.configs: list[dict[str, Any]] = []

    def find(self, plugin: str) -> str:
        if plugin == "missing":
            raise PluginNotFound(plugin, "not there")
        return f"/bin/{plugin}"

    async def invoke(self, plugin: str, environment: Mapping[str, str], stdin: bytes, timeout: float) -> bytes:
        self.asked.append((plugin, environment["CNI_COMMAND"]))
        self.environments.append(environment)
        self.configs.append(json.loads(stdin))
        answer = self.answers.get(f"{plugin}_{environment['CNI_COMMAND']}", b"")
        if isinstance(answer, Exception):
            raise answer
        return answer


def network(version: str = "1.0.0", *plugins: str, **top: Any):
    return parse_conflist(
        json.dumps({"cniVersion": version, "name": "net", "plugins": [{"type": p} for p in plugins or "abc"]} | top)
    )


ATTACHMENT = Attachment(container_id="c1", ifname="eth0", netns="/run/netns/x", args={"IgnoreUnknown": "1"})


def result_of(ip: str) -> bytes:
    return json.dumps({"cniVersion": "1.0.0", "ips": [{"address": ip}]}).encode()


async def test_add_hands_each_result_to_the_next_plugin():
    invoker = FakeInvoker(a_ADD=result_of("10.0.0.1/8"), b_ADD=result_of("10.0.0.2/8"), c_ADD=result_of("10.0.0.3/8"))
    result = await CNI(invoker).add(network(), ATTACHMENT)
    assert invoker.asked == [("a", "ADD"), ("b", "ADD"), ("c", "ADD")]
    previous = [config.get("prevResult", {}).get("ips") for config in invoker.configs]
    assert previous == [None, [{"address": "10.0.0.1/8"}], [{"address": "10.0.0.2/8"}]]
    assert result.addresses("eth0") == ("10.0.0.3",)
    assert all(
        environment
        == {
            "CNI_COMMAND": "ADD",
            "CNI_CONTAINERID": "c1",
            "CNI_NETNS": "/run/netns/x",
            "CNI_IFNAME": "eth0",
            "CNI_ARGS": "IgnoreUnknown=1",
        }
        for environment in invoker.environments
    )


async def test_add_stops_at_the_first_failure_and_deletes_nothing():
    failure = PluginError("b", "ADD", 7, "no")
    invoker = FakeInvoker(a_ADD=result_of("10.0.0.1/8"), b_ADD=failure)
    with pytest.raises(PluginError) as caught:
        await CNI(invoker).add(network(), ATTACHMENT)
    assert caught.value is failure
    assert invoker.asked == [("a", "ADD"), ("b", "ADD")]


async def test_a_result_that_is_none_is_the_plugin_s_failure():
    with pytest.raises(InvocationFailed, match="plugin a failed ADD: the result is not JSON"):
        await CNI(FakeInvoker()).add(network(), ATTACHMENT)


@pytest.mark.parametrize(("version", "told"), [("0.3.1", False), ("0.4.0", True), ("1.1.0", True)])
async def test_delete_runs_in_reverse_with_the_final_result(version, told):
    invoker = FakeInvoker()
    result = parse_result(result_of("10.0.0.3/8"), version)
    await CNI(invoker).delete(network(version), ATTACHMENT, result)
    assert invoker.asked == [("c", "DEL"), ("b", "DEL"), ("a", "DEL")]
    assert [config.get("prevResult") for config in invoker.configs] == [result.raw if told else None] * 3


async def test_delete_without_result_or_namespace():
    invoker = FakeInvoker()
    await CNI(invoker).delete(network(), Attachment(container_id="c1", ifname="eth0", netns=""))
    assert all("prevResult" not in config for config in invoker.configs)
    assert {environment["CNI_NETNS"] for environment in invoker.environments} == {""}


async def test_delete_stops_at_the_first_failure():
    invoker = FakeInvoker(b_DEL=PluginError("b", "DEL", 11, "later"))
    with pytest.raises(PluginError):
        await CNI(invoker).delete(network(), ATTACHMENT)
    assert invoker.asked == [("c", "DEL"), ("b", "DEL")]


async def test_check():
    result = parse_result(result_of("10.0.0.3/8"), "1.0.0")
    invoker = FakeInvoker()
    await CNI(invoker).check(network(), ATTACHMENT, result)
    assert invoker.asked == [("a", "CHECK"), ("b", "CHECK"), ("c", "CHECK")]
    assert [config["prevResult"] for config in invoker.configs] == [result.raw] * 3

    invoker = FakeInvoker(a_CHECK=PluginError("a", "CHECK", 100, "gone"))
    with pytest.raises(PluginError, match="gone"):
        await CNI(invoker).check(network(), ATTACHMENT, result)
    invoker = FakeInvoker()
    await CNI(invoker).check(network(disableCheck=True), ATTACHMENT, result)
    assert invoker.asked == []
    with pytest.raises(UnsupportedVerb):
        await CNI(invoker).check(network("0.3.1"), ATTACHMENT, result)


async def test_gc_asks_all_and_raises_the_first_failure():
    invoker = FakeInvoker(a_GC=PluginError("a", "GC", 100, "first"), b_GC=PluginError("b", "GC", 100, "second"))
    with pytest.raises(PluginError, match="first"):
        await CNI(invoker).gc(network("1.1.0"), [("c1", "eth0")])
    assert invoker.asked == [("a", "GC"), ("b", "GC"), ("c", "GC")]
    assert invoker.configs[0]["cni.dev/valid-attachments"] == [{"containerID": "c1", "ifname": "eth0"}]
    invoker = FakeInvoker()
    await CNI(invoker).gc(network("1.1.0", disableGC=True), [])
    assert invoker.asked == []
    with pytest.raises(UnsupportedVerb):
        await CNI(invoker).gc(network("1.0.0"), [])


async def test_status_and_version():
    invoker = FakeInvoker(
        b_STATUS=PluginError("b", "STATUS", 50, "not yet"), a_VERSION=b'{"supportedVersions":["1.0.0"]}'
    )
    with pytest.raises(PluginError, match="not yet"):
        await CNI(invoker).status(network("1.1.0"))
    with pytest.raises(UnsupportedVerb):
        await CNI(invoker).status(network("1.0.0"))
    assert await CNI(invoker).version("a") == ("1.0.0",)
    for answer in (b"", b"[]", b"{}", b'{"supportedVersions": [1]}'):
        with pytest.raises(PluginCrashed):
            await CNI(FakeInvoker(a_VERSION=answer)).version("a")


def test_missing_plugins_are_named():
    cni = CNI(FakeInvoker())
    assert cni.missing(network()) == ""
    assert cni.missing(network("1.0.0", "a", "missing")).startswith("plugins[1].type: plugin 'missing'")


@pytest.mark.parametrize(
    "bad",
    [
        {"container_id": ""},
        {"container_id": "-x"},
        {"container_id": "a/b"},
        {"ifname": ""},
        {"ifname": ".."},
        {"ifname": "a b"},
        {"ifname": "a" * 16},
        {"ifname": "eth0:1"},
        {"netns": "\0"},
        {"args": {"a": ";"}},
    ],
)
def test_what_cni_cannot_carry_is_refused(bad):
    with pytest.raises(AttachmentError):
        Attachment(**({"container_id": "c", "ifname": "eth0", "netns": "/x"} | bad))


async def test_add_needs_a_namespace():
    with pytest.raises(CNIError):
        await CNI(FakeInvoker()).add(network(), Attachment(container_id="c1", ifname="eth0", netns=""))


def speaks(*versions: str) -> bytes:
    return json.dumps({"cniVersion": "1.0.0", "supportedVersions": versions}).encode()


async def test_the_newest_version_that_all_plugins_speak_is_chosen():
    invoker = FakeInvoker(a_VERSION=speaks("0.4.0", "1.0.0", "1.1.0"), b_VERSION=speaks("0.3.1", "0.4.0", "1.0.0"))
    offered = network("1.1.0", "a", "b", "a", cniVersions=["0.4.0", "1.0.0", "1.1.0"])
    assert offered.cni_version == "1.1.0"
    chosen = await CNI(invoker).negotiate(offered)
    assert chosen.cni_version == "1.0.0"
    assert chosen.plugins == offered.plugins
    assert parse_conflist(chosen.text) == chosen
    assert invoker.asked == [("a", "VERSION"), ("b", "VERSION")]


async def test_plugins_that_speak_nothing_that_is_offered_are_named():
    invoker = FakeInvoker(a_VERSION=speaks("0.4.0"), b_VERSION=speaks("1.0.0"))
    with pytest.raises(IncompatibleVersions, match=r"offers CNI 1\.0\.0, but a speaks 0\.4\.0; b speaks 1\.0\.0"):
        await CNI(invoker).negotiate(network("1.0.0", "a", "b"))
