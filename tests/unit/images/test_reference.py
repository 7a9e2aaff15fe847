"""References: the table of cases is Docker's own behaviour, tried on the engine where it is not in the grammar."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crishim.errors import InvalidArgument
from crishim.images.reference import canonical_registry, is_id, parse_query, parse_reference

D = "sha256:" + "0123456789abcdef" * 4
HEX64 = "0123456789abcdef" * 4
LONG_HOST = "a" * 60

NAMES = [
    ("busybox", "docker.io/library/busybox:latest"),
    ("busybox:1.36", "docker.io/library/busybox:1.36"),
    ("library/busybox", "docker.io/library/busybox:latest"),
    ("docker.io/busybox", "docker.io/library/busybox:latest"),
    ("docker.io/library/busybox:1", "docker.io/library/busybox:1"),
    ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
    ("index.docker.io/user/app:2", "docker.io/user/app:2"),
    ("user/app", "docker.io/user/app:latest"),
    ("user/app/deep", "docker.io/user/app/deep:latest"),
    ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
    ("registry.k8s.io/e2e-test-images/agnhost:2.47", "registry.k8s.io/e2e-test-images/agnhost:2.47"),
    ("localhost/app", "localhost/app:latest"),
    ("localhost:5000/app", "localhost:5000/app:latest"),
    ("host:5000/app:v1", "host:5000/app:v1"),
    ("127.0.0.1:5000/a/b:c", "127.0.0.1:5000/a/b:c"),
    ("[::1]:5000/app", "[::1]:5000/app:latest"),
    ("[2001:db8::1]/app:t", "[2001:db8::1]/app:t"),
    ("Upper/app", "Upper/app:latest"),  # an upper-case first part can only be a host
    ("HOST.example/app", "HOST.example/app:latest"),
    ("xn--n3h.com/app", "xn--n3h.com/app:latest"),
    ("a__b/c..d".replace("..", "."), "docker.io/a__b/c.d:latest"),
    ("a-----b", "docker.io/library/a-----b:latest"),
    ("app:UPPER_Tag.1-2", "docker.io/library/app:UPPER_Tag.1-2"),
    ("app:_x", "docker.io/library/app:_x"),
    ("app:" + "t" * 128, "docker.io/library/app:" + "t" * 128),
    ("a" * 247, "docker.io/library/" + "a" * 247 + ":latest"),  # with library/ 255
    (f"busybox@{D}", f"docker.io/library/busybox@{D}"),
    (f"busybox:1.36@{D}", f"docker.io/library/busybox@{D}"),
    (f"host:5000/app@{D}", f"host:5000/app@{D}"),
    ("app@sha512:" + "ab" * 64, "docker.io/library/app@sha512:" + "ab" * 64),
    ("sha256:latest", "docker.io/library/sha256:latest"),  # no hex digits: a name
    ("cafe", "docker.io/library/cafe:latest"),
    ("a" * 63, "docker.io/library/" + "a" * 63 + ":latest"),
    ("a" * 65, "docker.io/library/" + "a" * 65 + ":latest"),
    (f"{LONG_HOST}.example:65535/x", f"{LONG_HOST}.example:65535/x:latest"),
]

BAD = [
    *("", " ", "/", ":", "@", ":tag", "/app", "app/", "a//b", "app:", "app@", "host:/app", "host:x/app"),
    *("Busybox", "user/App", "docker.io/Busybox:1", "app name", " busybox", "busybox ", "busybox\n", "büsybox"),
    *("-app", "app-", ".app", "app.", "_app", "app_", "a..b", "a___b", "a._b", "user/-a", "-host.x/app", "host-.x/app"),
    *(
        "app:-t",
        "app:.t",
        "app:a:b",
        "app:t/x:y/z:",
        "app:" + "t" * 129,
        "host..x/app",
        "[::1/app",
        "::1/app",
        "[::g]/a",
    ),
    *("app@sha256:1234", f"app@{D}0", f"app@{D[:-1]}", f"app@{D.upper()}", f"app@md5:{'0' * 32}", f"app@{D}@{D}"),
    *(f"app@{D.replace('a', 'A')}", "https://host.example/app", "host.example/app?x=1", "app#1", "../app"),
    *("a" * 248, "docker.io/" + "a/" * 127 + "aa", "x" * 5000, "host.example/", "host.example:5000", "a\0b"),
]


@pytest.mark.parametrize(("text", "normal"), NAMES)
def test_a_name_is_normalised_as_docker_does(text, normal):
    reference = parse_reference(text)
    assert str(reference) == normal
    assert str(parse_reference(normal)) == normal


@pytest.mark.parametrize("text", [bad for bad in BAD if bad != "host.example:5000"])
def test_what_is_no_name_is_refused_with_the_field(text):
    with pytest.raises(InvalidArgument) as raised:
        parse_reference(text, field="config.image.image")
    assert raised.value.message.startswith("config.image.image: ")
    assert len(raised.value.message) < 400


def test_a_host_alone_reads_as_name_and_tag():
    assert str(parse_reference("host.example:5000")) == "docker.io/library/host.example:5000"


def test_upper_case_in_the_path_is_told_as_such():
    with pytest.raises(InvalidArgument, match="lower case"):
        parse_reference("docker.io/library/BusyBox:1")


@pytest.mark.parametrize("text", [HEX64, D, "sha256:0123", "sha512:" + "ab" * 64])
def test_an_id_is_no_name(text):
    assert is_id(text)
    with pytest.raises(InvalidArgument, match="is an image id"):
        parse_reference(text)
    query = parse_query(text)
    assert (query.name, query.id_prefix) == (None, text)


def test_few_hex_digits_may_be_both():
    query = parse_query("cafe")
    assert str(query.name) == "docker.io/library/cafe:latest"
    assert query.id_prefix == "cafe"


@pytest.mark.parametrize("text", ["cafe:1234", "cafe/cafe", f"cafe@{D}", "busybox", "localhost:5000/cafe"])
def test_a_name_with_tag_digest_or_path_is_never_an_id(text):
    assert parse_query(text).id_prefix == ""


@pytest.mark.parametrize(
    ("text", "named"),
    [("busybox", False), ("user/app", False), ("docker.io/a", True), ("h:1/a", True), ("localhost/a", True)],
)
def test_it_is_known_whether_the_text_named_a_registry(text, named):
    assert parse_reference(text).names_registry is named


def test_parts_are_kept_apart():
    reference = parse_reference(f"host:5000/a/b:v1@{D}")
    assert (reference.registry, reference.path, reference.tag, reference.digest) == ("host:5000", "a/b", "v1", D)
    assert reference.repository == "host:5000/a/b"


@pytest.mark.parametrize(
    ("server", "registry"),
    [
        ("https://index.docker.io/v1/", "docker.io"),
        ("registry-1.docker.io", "docker.io"),
        ("docker.io", "docker.io"),
        ("https://host.example:5000/v2/", "host.example:5000"),
        ("host.example", "host.example"),
        ("", ""),
    ],
)
def test_an_address_means_a_registry(server, registry):
    assert canonical_registry(server) == registry


component = st.from_regex(re.compile(r"[a-z0-9]{1,8}((\.|_|__|-{1,3})[a-z0-9]{1,5}){0,2}"), fullmatch=True)
hosts = st.sampled_from(["", "localhost/", "localhost:5000/", "a.example/", "10.0.0.1:1/", "[::1]:5000/", "docker.io/"])
tags = st.one_of(
    st.just(""), st.from_regex(re.compile(r":[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII), fullmatch=True)
)
digests = st.one_of(st.just(""), st.from_regex(re.compile(r"@sha256:[0-9a-f]{64}"), fullmatch=True))


@given(hosts, st.lists(component, min_size=1, max_size=4), tags, digests)
def test_every_well_formed_name_is_read_and_stays_what_it_is(host, parts, tag, digest):
    text = host + "/".join(parts) + tag + digest
    if is_id(text) or ("/" in text and parts[0].count(".") and not host):
        return
    reference = parse_reference(text)
    assert str(parse_reference(str(reference))) == str(reference)
    assert reference.digest == digest[1:]
    assert reference.tag == (tag[1:] or ("" if digest else "latest"))
    assert reference.path.endswith("/".join(parts) if host else parts[-1])


@given(st.text(max_size=80) | st.text(alphabet=string.hexdigits + ":/@.-_[]", max_size=120))
def test_any_text_is_read_or_refused(text):
    try:
        query = parse_query(text)
    except InvalidArgument:
        return
    assert query.name is not None or query.id_prefix == text
    if query.name is not None:
        assert parse_reference(str(query.name)).repository == query.name.repository
