"""What reaches a plugin, and what is refused before; fuzzed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni import results
from cni.errors import Code
from cni.plugins import dispatch
from cni.plugins.api import Call, CallFailed, Plugin
from cni.plugins.bandwidth.plugin import Bandwidth
from cni.plugins.bandwidth.plugin import read_options as read_bandwidth
from cni.plugins.bridge.options import read_options as read_bridge
from cni.plugins.host_local.plugin import read_options as read_host_local
from cni.results import IPConfig, Result

ENVIRONMENT = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c1",
    "CNI_IFNAME": "eth0",
    "CNI_NETNS": "/n",
    "CNI_ARGS": "A=b",
}
CONFIG = {"cniVersion": "1.1.0", "name": "net", "type": "recorder"}


class Recorder(Plugin):
    type = "recorder"

    def __init__(self, failure: BaseException | None = None) -> None:
        self.calls: list[Call] = []
        self._failure = failure

    def add(self, call: Call) -> Result:
        self._record(call)
        return results.make("1.0.0", ips=(IPConfig(address="10.0.0.2/24"),))

    def _record(self, call: Call) -> None:
        self.calls.append(call)
        if self._failure is not None:
            raise self._failure

    check = delete = gc = status = _record


def run(plugin: Plugin, config: Any = CONFIG, **environment: str) -> Any:
    answer = dispatch.run(plugin, ENVIRONMENT | environment, json.dumps(config).encode())
    return json.loads(answer.output) if answer.output else None


def test_a_call_in_full() -> None:
    recorder = Recorder()
    said = run(recorder, CONFIG | {"prevResult": {"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.9/24"}]}})
    (call,) = recorder.calls
    assert (call.verb, call.network, call.version) == ("ADD", "net", "1.1.0")
    assert (call.container_id, call.ifname, call.netns, call.args) == ("c1", "eth0", "/n", {"A": "b"})
    assert call.prev_result is not None
    assert call.prev_result.ips[0].ip == "10.0.0.9"
    assert said == {"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.2/24"}]}


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.1.0", {"ip4": {"ip": "10.0.0.2/24"}}),
        ("0.2.0", {"ip4": {"ip": "10.0.0.2/24"}}),
        ("0.4.0", {"ips": [{"address": "10.0.0.2/24", "version": "4"}]}),
    ],
)
def test_the_result_is_in_the_version_asked_for(version: str, said: dict[str, Any]) -> None:
    assert run(Recorder(), CONFIG | {"cniVersion": version}) == {"cniVersion": version} | said


def test_gc_tells_what_is_valid() -> None:
    recorder = Recorder()
    valid = {"cni.dev/valid-attachments": [{"containerID": "c1", "ifname": "eth0"}]}
    assert run(recorder, CONFIG | valid, CNI_COMMAND="GC") is None
    assert recorder.calls[0].valid == {("c1", "eth0")}


def test_delete_without_namespace() -> None:
    recorder = Recorder()
    run(recorder, CNI_COMMAND="DEL", CNI_NETNS="")
    assert recorder.calls[0].netns == ""


def test_versions() -> None:
    assert run(Recorder(), {"cniVersion": "0.4.0"}, CNI_COMMAND="VERSION") == {
        "cniVersion": "0.4.0",
        "supportedVersions": ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
    }


@pytest.mark.parametrize(
    ("config", "environment", "code", "words"),
    [
        (CONFIG, {"CNI_COMMAND": "MOVE"}, Code.INVALID_ENVIRONMENT, "CNI_COMMAND"),
        (CONFIG, {"CNI_CONTAINERID": ""}, Code.INVALID_ENVIRONMENT, "CNI_CONTAINERID is missing"),
        (CONFIG, {"CNI_CONTAINERID": "../x"}, Code.INVALID_ENVIRONMENT, "CNI_CONTAINERID"),
        (CONFIG, {"CNI_IFNAME": "a/b"}, Code.INVALID_ENVIRONMENT, "CNI_IFNAME"),
        (CONFIG, {"CNI_NETNS": ""}, Code.INVALID_ENVIRONMENT, "CNI_NETNS is missing"),
        (CONFIG, {"CNI_ARGS": "x"}, Code.INVALID_ENVIRONMENT, "malformed CNI_ARGS"),
        ([], {}, Code.DECODING_FAILURE, "must be a JSON object"),
        (CONFIG | {"cniVersion": "9.0.0"}, {}, Code.INCOMPATIBLE_VERSION, "cniVersion: '9.0.0'"),
        (CONFIG | {"cniVersion": "0.3.1"}, {"CNI_COMMAND": "CHECK"}, Code.INCOMPATIBLE_VERSION, "has no CHECK"),
        (CONFIG | {"cniVersion": "1.0.0"}, {"CNI_COMMAND": "GC"}, Code.INCOMPATIBLE_VERSION, "has no GC"),
        (CONFIG | {"name": "../x"}, {}, Code.INVALID_CONFIG, "name: "),
        (CONFIG, {"CNI_COMMAND": "CHECK"}, Code.INVALID_CONFIG, "prevResult"),
        (CONFIG, {"CNI_COMMAND": "GC"}, Code.INVALID_CONFIG, "cni.dev/valid-attachments: must be a list"),
        (CONFIG | {"prevResult": {"ips": 5}}, {}, Code.DECODING_FAILURE, "prevResult: ips: must be a list"),
    ],
)
def test_refused(config: Any, environment: dict[str, str], code: Code, words: str) -> None:
    recorder = Recorder()
    with pytest.raises(CallFailed) as caught:
        run(recorder, config, **environment)
    assert (caught.value.code, recorder.calls) == (code, [])
    assert words in caught.value.message


def test_an_error_of_the_system_is_told() -> None:
    with pytest.raises(CallFailed) as caught:
        run(Recorder(PermissionError(13, "Permission denied", "/x")))
    assert dispatch.error_object(caught.value) == {"cniVersion": "1.1.0", "code": 5, "msg": "/x: Permission denied"}


def failure(action: Callable[[], object]) -> CallFailed | None:
    """The refusal that it ends with, None for none; anything else passes through."""
    try:
        action()
    except CallFailed as refused:
        return refused
    return None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
keys = st.sampled_from(
    [
        *("ipam", "ranges", "subnet", "routes", "dst", "gw", "dns", "mtu", "args", "cni", "runtimeConfig", "ipRanges"),
        *("bridge", "ingressRate", "ingressBurst", "bandwidth", "mac", "ips", "dataDir", "type", "prevResult"),
    ]
)
configs = st.dictionaries(
    keys,
    st.recursive(
        json_values | st.sampled_from(["10.0.0.0/24", "10.0.0.5", "fd00::/64", "host-local"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=6,
)


@given(configs)
def test_any_configuration_is_read_or_refused(config: dict[str, Any]) -> None:
    call = Call(verb="ADD", config=config, network="net", version="1.0.0")
    for read in (read_bridge, read_host_local, read_bandwidth):
        refused = failure(lambda read=read: read(call))  # type: ignore[misc]
        assert refused is None or refused.code in (Code.INVALID_CONFIG, Code.UNSUPPORTED_FIELD)


@given(st.binary(max_size=200) | configs.map(lambda config: json.dumps({**CONFIG, **config}).encode()), st.text())
def test_any_input_is_answered_or_refused(stdin: bytes, args: str) -> None:
    environment = ENVIRONMENT | {"CNI_ARGS": args}
    for verb in ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"):
        asked = environment | {"CNI_COMMAND": verb}
        refused = failure(lambda asked=asked: dispatch.run(Recorder(), asked, stdin))  # type: ignore[misc]
        assert refused is None or json.dumps(dispatch.error_object(refused))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"ingressRate": 8}, "ingressBurst: ingressRate and ingressBurst are set both"),
        ({"egressRate": 4, "egressBurst": 80}, "egressRate: must be at least one byte"),
        ({"ingressRate": 8, "ingressBurst": 1 << 40}, "ingressBurst: must be a whole number"),
        ({"shapedSubnets": []}, "shapedSubnets: this plugin has no such option"),
        ({"runtimeConfig": {"bandwidth": {"rate": 1}}}, "runtimeConfig.bandwidth.rate: this plugin has no such option"),
    ],
)
def test_bandwidth_refuses(config: dict[str, Any], words: str) -> None:
    call = Call(verb="ADD", config=config, network="n", version="1.0.0")
    with pytest.raises(CallFailed) as caught:
        Bandwidth().add(call)
    assert str(caught.value).startswith(words)
