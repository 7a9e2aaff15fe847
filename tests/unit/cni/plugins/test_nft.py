"""Messages to nftables, elements of port mappings, and whose they are.  No socket."""

from __future__ import annotations

import contextlib
import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni.errors import CNIError, Code
from cni.plugins.api import CallFailed
from cni.plugins.nft import encode, masquerade, skeleton
from cni.plugins.nft.encode import Element
from cni.plugins.nft.netlink import attribute, attributes, each_attribute, nested, number, string, text
from cni.plugins.nft.owner import owned, owner, replacing, stale
from cni.plugins.nft.ruleset import Change
from cni.plugins.options import Reader
from cni.plugins.portmap_rules import Mapping, make_elements, parse_mappings, parse_port

POD4, POD6 = ipaddress.ip_interface("10.1.0.5/16"), ipaddress.ip_interface("fd00::5/64")


def table(*elements: Element) -> dict[tuple[str, bytes], Element]:
    return {(element.set, element.key): element for element in elements}


@given(st.dictionaries(st.integers(1, 0x3FFF), st.binary(max_size=50)))
def test_attributes_are_read_back(values: dict[int, bytes]) -> None:
    encoded = b"".join(attribute(kind, payload) for kind, payload in values.items())
    assert len(encoded) % 4 == 0
    assert attributes(encoded) == values


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_end_or_crash(data: bytes) -> None:
    assert len(list(each_attribute(data))) <= len(data) // 4
    encode.parse_elements("x", data)
    encode.parse_rule_chain(data)


def test_numbers_and_texts() -> None:
    assert number(1, 258) == b"\x08\0\x01\0\0\0\x01\x02"
    assert number(1, -3)[4:] == b"\xff\xff\xff\xfd"
    assert text(2, "abc") == b"\x08\0\x02\0abc\0"
    assert nested(3, number(1, 1))[:4] == struct.pack("=HH", 12, 0x8003)
    assert string(b"abc\0\0") == "abc"


@pytest.mark.parametrize(
    "element",
    [
        Element("masquerade4", b"\x0a\x01\0\5", chain="masq_10.1.0.0/16", comment="net c1 eth0"),
        Element("ports4", b"\6\0\0\0\0\x50\0\0", value=b"\x0a\x01\0\5\0\x50\0\0", comment="net c1 eth0"),
        Element("guarded", b"br0".ljust(16, b"\0")),
    ],
)
def test_elements_are_read_back(element: Element) -> None:
    _, _, body = encode.add_elements("crishim", element.set, [element])
    assert encode.parse_elements(element.set, body) == [element]


def test_chains_of_subnets_are_told_by_their_names() -> None:
    for subnet in (POD4.network, POD6.network):
        assert len(skeleton.chain_rules(skeleton.masquerade_chain(subnet))) == 3
        assert skeleton.chain_rules(skeleton.hairpin_chain(subnet))
    assert skeleton.masquerade_chain(POD6.network) == "masq_fd00__/64", "a name that nft can print"
    with pytest.raises(ValueError, match="x_10"):
        skeleton.chain_rules("x_10.0.0.0/8")


def test_masquerade_elements() -> None:
    assert masquerade.make_elements("n c eth0", ["10.1.0.5/16", "fd00::5/64"]) == [
        Element("masquerade4", POD4.packed, chain="masq_10.1.0.0/16", comment="n c eth0"),
        Element("masquerade6", POD6.packed, chain="masq_fd00__/64", comment="n c eth0"),
    ]


def test_a_port_of_any_address_is_one_of_each_family() -> None:
    elements = make_elements("n c eth0", [Mapping(8080, 80, 6)], [POD4, POD6, ipaddress.ip_interface("10.1.0.6/16")])
    assert [element.set for element in elements] == ["ports4", "targets4", "ports6", "targets6"]
    assert elements[0].key == b"\6\0\0\0" + (8080).to_bytes(2, "big") + b"\0\0"
    assert elements[0].value == POD4.packed + b"\0\x50\0\0"
    assert str(parse_port(elements[0])) == "8080/tcp"
    assert parse_port(elements[1]) is None


def test_a_port_of_one_address() -> None:
    host = ipaddress.ip_address("192.0.2.1")
    (entry, target) = make_elements("n c eth0", [Mapping(53, 5353, 17, host)], [POD4, POD6])
    assert (entry.set, target.set) == ("hostports4", "targets4")
    port = parse_port(entry)
    assert port is not None
    assert (str(port), port.address, port.protocol) == ("53/udp of 192.0.2.1", POD4.ip, 17)
    (every, _) = make_elements("n c eth0", [Mapping(53, 53, 17, ipaddress.ip_address("0.0.0.0"))], [POD4, POD6])
    assert every.set == "ports4"


def test_two_host_ports_may_lead_to_one_port_but_not_one_to_two() -> None:
    assert len(make_elements("n c eth0", [Mapping(80, 80, 6), Mapping(81, 80, 6)], [POD4])) == 3
    with pytest.raises(CallFailed, match="host port 80/tcp is mapped twice"):
        make_elements("n c eth0", [Mapping(80, 80, 6), Mapping(80, 81, 6)], [POD4])


def test_a_family_that_the_container_lacks() -> None:
    with pytest.raises(CallFailed, match="no address of the family of 2001:db8::1"):
        make_elements("n c eth0", [Mapping(80, 80, 6, ipaddress.ip_address("2001:db8::1"))], [POD4])


def test_mappings_are_read_strictly() -> None:
    good = {"hostPort": 80, "containerPort": 8080, "protocol": "SCTP", "hostIP": "127.0.0.1"}
    (mapping,) = parse_mappings(Reader({"portMappings": [good]}))
    assert mapping == Mapping(80, 8080, 132, ipaddress.ip_address("127.0.0.1"))
    for bad, told in (
        ({"hostPort": 0}, "hostPort"),
        ({"hostPort": 65536}, "hostPort"),
        ({"containerPort": 0}, "containerPort"),
        ({"protocol": "icmp"}, "protocol"),
        ({"hostIP": "::1"}, "::1"),
        ({"hostIP": "here"}, "hostIP"),
        ({"name": "web"}, "name"),
    ):
        with pytest.raises(CallFailed, match=told) as caught:
            parse_mappings(Reader({"portMappings": [good | bad]}))
        assert caught.value.code in (Code.INVALID_CONFIG, Code.UNSUPPORTED_FIELD)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_any_mappings_are_read_or_refused(value: object) -> None:
    with contextlib.suppress(CNIError):
        parse_mappings(Reader({"portMappings": value}))


def test_owners() -> None:
    long = owner("n" * 300, "c" * 64, "eth0")
    assert len(long) <= 127
    assert long.endswith(f" {'c' * 64} eth0")
    ours, theirs, other = (
        Element("ports4", bytes([n]) * 8, comment=comment)
        for n, comment in enumerate(("net c1 eth0", "net c2 eth0", "net2 c1 eth0"))
    )
    now = table(ours, theirs, other)
    assert owned(now, {"ports4"}, "net c1 eth0") == [ours]
    assert owned(now, {"ports6"}, "net c1 eth0") == []
    assert stale(now, {"ports4"}, "net", frozenset({("c2", "eth0")})) == [ours]
    assert stale(now, {"ports4"}, "net", frozenset()) == [ours, theirs]


def test_what_is_the_same_is_left_alone() -> None:
    old, new, gone = (
        Element("masquerade4", b"a", chain="x", comment="1"),
        Element("masquerade4", b"a", chain="y", comment="2"),
        Element("masquerade4", b"b", chain="x", comment="2"),
    )
    assert replacing(table(old), [old], [old]) == Change()
    assert replacing(table(old, gone), [new], [gone]) == Change(remove=(gone, old), add=(new,))
