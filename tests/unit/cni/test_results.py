"""Results of every version are read into one type and written back."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni import versions
from cni.errors import ResultError
from cni.results import DNS, Interface, IPConfig, Route, convert, parse_result

OLD = {
    "cniVersion": "0.4.0",
    "interfaces": [
        {"name": "cni0", "mac": "00:11:22:33:44:55"},
        {"name": "eth0", "mac": "99:88:77:66:55:44", "sandbox": "/run/netns/blue"},
    ],
    "ips": [
        {"version": "4", "address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 1},
        {"version": "6", "address": "fd00::5/64", "interface": 1},
    ],
    "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}, {"dst": "::/0"}],
    "dns": {"nameservers": ["10.1.0.1"], "domain": "local", "search": ["a"], "options": ["ndots:5"]},
}
ROUTE = {"dst": "0.0.0.0/0", "gw": "10.1.0.1", "mtu": 1400, "advmss": 1360, "priority": 0, "table": 5, "scope": 0}
NEW = {
    "cniVersion": "1.1.0",
    "interfaces": [
        {"name": "eth0", "sandbox": "/run/netns/blue", "mtu": 1500, "socketPath": "/s", "pciID": "0000:01:00.0"}
    ],
    "ips": [{"address": "10.1.0.5/16", "interface": 0}],
    "routes": [ROUTE],
}


def test_old():
    result = parse_result(json.dumps(OLD), "0.4.0")
    assert result.interfaces == (
        Interface(name="cni0", mac="00:11:22:33:44:55"),
        Interface(name="eth0", mac="99:88:77:66:55:44", sandbox="/run/netns/blue"),
    )
    assert result.ips == (
        IPConfig(address="10.1.0.5/16", gateway="10.1.0.1", interface=1),
        IPConfig(address="fd00::5/64", interface=1),
    )
    assert result.routes == (Route(dst="0.0.0.0/0", gw="10.1.0.1"), Route(dst="::/0"))
    assert result.dns == DNS(nameservers=("10.1.0.1",), domain="local", search=("a",), options=("ndots:5",))
    assert result.addresses("eth0") == ("10.1.0.5", "fd00::5")
    assert result.addresses("cni0") == ()
    assert json.loads(result.text) == OLD


def test_new():
    result = parse_result(json.dumps(NEW), "1.1.0")
    assert result.interfaces[0].mtu == 1500
    assert result.routes == (Route(**ROUTE),)  # type: ignore[arg-type]
    assert json.loads(result.text) == NEW


@pytest.mark.parametrize("version", [one for one in versions.SUPPORTED if versions.has_interfaces(one)])
@pytest.mark.parametrize("source", [OLD, NEW], ids=["old", "new"])
def test_conversion_there_and_back_says_the_same(source, version):
    result = parse_result(json.dumps(source), source["cniVersion"])
    converted = convert(result, version)
    assert parse_result(converted.text, version).raw == converted.raw
    assert converted.raw["cniVersion"] == version
    if source is OLD or version == "1.1.0":
        assert convert(converted, source["cniVersion"]).raw == source
    for ip in converted.raw["ips"]:
        assert ("version" in ip) == version.startswith("0.")
    assert ("mtu" in converted.raw["interfaces"][0]) == (version == "1.1.0" and source is NEW)


def test_an_answer_in_another_version_is_converted():
    result = parse_result(json.dumps(OLD), "1.0.0")
    assert result.raw["cniVersion"] == "1.0.0"
    assert result.raw["ips"][0] == {"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 1}


def test_unknown_keys_are_kept_and_a_missing_version_is_the_one_asked_for():
    result = parse_result('{"ips": null, "x-vendor": {"a": 1}}', "1.0.0")
    assert result.raw == {"ips": None, "x-vendor": {"a": 1}, "cniVersion": "1.0.0"}
    assert result.ips == ()


def test_addresses_without_interface_belong_to_the_container():
    result = parse_result('{"ips": [{"address": "10.0.0.1/8"}, {"address": "10.0.0.1/8"}]}', "1.0.0")
    assert result.addresses("eth0") == ("10.0.0.1",)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"cniVersion": "9.0.0"}', "cniVersion: '9.0.0' is not supported"),
        ('{"cniVersion": 1}', "cniVersion: must be a string"),
        ('{"ips": {}}', "ips: must be a list"),
        ('{"ips": [7]}', "ips[0]: must be an object"),
        ('{"ips": [{}]}', "ips[0].address: must be a string"),
        ('{"ips": [{"address": "10.0.0.1"}]}', "ips[0].address: '10.0.0.1' lacks its prefix length"),
        ('{"ips": [{"address": "10.0.0.1/33"}]}', "ips[0].address: "),
        ('{"ips": [{"address": "10.0.0.1/8", "gateway": "x"}]}', "ips[0].gateway: "),
        ('{"ips": [{"address": "10.0.0.1/8", "interface": 0}]}', "ips[0].interface: 0 is not in the list"),
        ('{"ips": [{"address": "10.0.0.1/8", "interface": -1}], "interfaces": [{}]}', "ips[0].interface: -1"),
        ('{"ips": [{"address": "10.0.0.1/8", "interface": true}]}', "ips[0].interface: must be a whole number"),
        ('{"interfaces": [{"name": 7}]}', "interfaces[0].name: must be a string"),
        ('{"routes": [{"dst": "default"}]}', "routes[0].dst: "),
        ('{"routes": [{"dst": "0.0.0.0/0", "mtu": "x"}]}', "routes[0].mtu: must be a whole number"),
        ('{"dns": {"search": "x"}}', "dns.search: must be a list"),
        ('{"dns": {"search": [1]}}', "dns.search[0]: must be a string"),
    ],
)
def test_faults_are_named(source, reason):
    with pytest.raises(ResultError) as caught:
        parse_result(source, "1.0.0")
    assert reason in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("10.0.0.1/8"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["address", "name", "interface", "dst", "gw", "mtu", "search"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["ips", "interfaces", "routes", "dns", "cniVersion"]), JSON))
def test_any_object_is_read_or_refused(raw):
    try:
        result = parse_result(json.dumps(raw), "1.0.0")
    except ResultError:
        return
    for version in versions.SUPPORTED:
        parse_result(convert(result, version).text, version)


TWO = {
    "cniVersion": "0.2.0",
    "ip4": {
        "ip": "10.1.0.5/16",
        "gateway": "10.1.0.1",
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.0.2.0/24", "gw": "10.1.0.9"}],
    },
    "ip6": {"ip": "fd00::5/64"},
    "dns": {"nameservers": ["10.1.0.1"], "search": ["example"]},
}


@pytest.mark.parametrize("version", versions.SUPPORTED)
def test_what_came_before_interfaces_and_back(version):
    """0.1.0 and 0.2.0 know one address of each family."""
    result = parse_result(json.dumps(TWO), "0.2.0")
    assert result.addresses("eth0") == ("10.1.0.5", "fd00::5")
    assert [(route.dst, route.gw) for route in result.routes] == [("0.0.0.0/0", ""), ("192.0.2.0/24", "10.1.0.9")]
    converted = convert(result, version)
    assert convert(parse_result(converted.text, version), "0.2.0").raw == TWO


def test_the_first_address_of_each_family_is_told_before_0_3_0():
    source = {"cniVersion": "1.0.0", "ips": [{"address": f"10.0.0.{n}/8"} for n in (1, 2)], "routes": [{"dst": "::/0"}]}
    assert parse_result(json.dumps(source), "0.1.0").raw == {"cniVersion": "0.1.0", "ip4": {"ip": "10.0.0.1/8"}}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"ip4": 5}, "ip4: must be an object"),
        ({"ip4": {}}, "ips[0].address: must be a string"),
        ({"ip4": {"ip": "10.0.0.1/8", "routes": [5]}}, "ip4.routes[0]: must be an object"),
    ],
)
def test_bad_results_from_before_0_3_0(source, reason):
    with pytest.raises(ResultError, match=re.escape(reason)):
        parse_result(json.dumps(source), "0.2.0")
