"""What a plugin reads on stdin, and CNI_ARGS."""

from __future__ import annotations

import json

import pytest

from cni.args import encode_args, parse_args
from cni.conf import parse_conflist
from cni.derive import execution_config, gc_config
from cni.errors import AttachmentError

NETWORK = parse_conflist(
    json.dumps(
        {
            "cniVersion": "1.0.0",
            "name": "net",
            "plugins": [
                {
                    "type": "portmap",
                    "name": "own",
                    "cniVersion": "0.3.0",
                    "snat": True,
                    "capabilities": {"portMappings": True, "dns": False},
                    "runtimeConfig": {"x": 1},
                    "prevResult": {},
                    "cni.dev/x": 1,
                    "args": {"cni": {"labels": []}},
                }
            ],
        }
    )
)
(PLUGIN,) = NETWORK.plugins
BASE = {"type": "portmap", "name": "net", "cniVersion": "1.0.0", "snat": True, "args": {"cni": {"labels": []}}}


def test_name_and_version_are_the_network_s_and_reserved_keys_are_not_passed_on():
    assert execution_config(NETWORK, PLUGIN) == BASE


def test_only_declared_capabilities_are_passed():
    dynamic = {"portMappings": [{"hostPort": 1}], "dns": {"servers": []}, "bandwidth": {}}
    assert execution_config(NETWORK, PLUGIN, dynamic) == BASE | {"runtimeConfig": {"portMappings": [{"hostPort": 1}]}}
    assert execution_config(NETWORK, PLUGIN, {"dns": {}}) == BASE


def test_previous_result():
    assert execution_config(NETWORK, PLUGIN, None, {"ips": []}) == BASE | {"prevResult": {"ips": []}}


def test_gc():
    assert gc_config(NETWORK, PLUGIN, [("a", "eth0")]) == BASE | {
        "cni.dev/valid-attachments": [{"containerID": "a", "ifname": "eth0"}]
    }


def test_the_configuration_itself_is_not_changed():
    before = json.dumps(PLUGIN)
    execution_config(NETWORK, PLUGIN, {"portMappings": []}, {})
    assert json.dumps(PLUGIN) == before


def test_args_keep_their_order():
    assert (
        encode_args({"IgnoreUnknown": "1", "K8S_POD_NAME": "a", "EMPTY": ""}) == "IgnoreUnknown=1;K8S_POD_NAME=a;EMPTY="
    )
    assert parse_args("IgnoreUnknown=1;K8S_POD_NAME=a;EMPTY=") == {
        "IgnoreUnknown": "1",
        "K8S_POD_NAME": "a",
        "EMPTY": "",
    }
    assert encode_args({}) == ""
    assert parse_args("") == {}


@pytest.mark.parametrize("args", [{"a": "x;b=y"}, {"a": "x=y"}, {"a=b": "x"}, {"": "x"}, {"a": "\0"}])
def test_args_that_would_read_back_as_others_are_refused(args):
    with pytest.raises(AttachmentError):
        encode_args(args)


@pytest.mark.parametrize("text", ["a", "a=b=c", "=x"])
def test_malformed_args(text):
    with pytest.raises(AttachmentError):
        parse_args(text)
