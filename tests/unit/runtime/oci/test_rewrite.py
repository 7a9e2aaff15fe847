"""A configuration rewritten: what was wished is there, all else is as it was, twice is once."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crishim.model import HugepageLimit, IDMapping
from crishim.runtime.oci.rewrite import rewrite, rewrite_process
from crishim.runtime.oci.wish import NOTHING, IDMappings, UnfitConfig, Wish

KILL, CHOWN = "CAP_KILL", "CAP_CHOWN"
RUN = IDMapping(host_id=100_000, container_id=0, length=65_536)
SETS = ("bounding", "effective", "inheritable", "permitted", "ambient")
MIB = 1 << 20


def config() -> dict[str, Any]:
    """As an engine writes one, in short."""
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 1000, "gid": 1000},
            "args": ["sh"],
            "capabilities": {"bounding": [CHOWN], "permitted": [CHOWN], "inheritable": [CHOWN]},
        },
        "root": {"path": "/merged"},
        "hostname": "pod",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev/shm", "type": "bind", "source": "/engine/shm", "options": ["rbind"]},
            {"destination": "/data", "type": "bind", "source": "/host", "options": ["rbind", "ro", "rprivate"]},
            {"destination": "/etc/hosts", "type": "bind", "source": "/engine/hosts", "options": ["rbind"]},
        ],
        "linux": {
            "sysctl": {"kernel.shmmax": "1"},
            "resources": {"memory": {"limit": 5}},
            "namespaces": [{"type": "mount"}, {"type": "network", "path": "/proc/9/ns/net"}, {"type": "uts"}],
        },
    }


def part(value: Any, *path: str) -> Any:
    for name in path:
        value = value[name]
    return value


def mount(made: Mapping[str, Any], destination: str) -> dict[str, Any]:
    (found,) = [mount for mount in made["mounts"] if mount["destination"] == destination]
    return dict(found)


@pytest.mark.parametrize(
    ("wish", "path", "wanted"),
    [
        (
            Wish(ambient=(KILL,)),
            ("process", "capabilities"),
            {name: [CHOWN, KILL] if name in ("bounding", "permitted", "inheritable") else [KILL] for name in SETS},
        ),
        (Wish(ambient=("ALL",)), ("process", "capabilities"), {key: [CHOWN] for key in SETS}),
        (Wish(unified={"memory.high": "1"}), ("linux", "resources", "unified"), {"memory.high": "1"}),
        (
            Wish(hugepage_limits=(HugepageLimit(page_size="2MB", limit=4 * MIB),)),
            ("linux", "resources", "hugepageLimits"),
            [{"pageSize": "2MB", "limit": 4 * MIB}],
        ),
        (
            Wish(sysctls={"net.core.somaxconn": "7"}),
            ("linux", "sysctl"),
            {"kernel.shmmax": "1", "net.core.somaxconn": "7"},
        ),
        (
            Wish(id_mappings=IDMappings(uids=(RUN,), gids=())),
            ("linux", "uidMappings"),
            [{"containerID": 0, "hostID": 100_000, "size": 65_536}],
        ),
        (Wish(id_mappings=IDMappings(uids=(RUN,), gids=())), ("linux", "gidMappings"), []),
    ],
    ids=str,
)
def test_what_was_wished_is_there(wish: Wish, path: tuple[str, ...], wanted: Any) -> None:
    before = config()
    assert part(rewrite(before, wish), *path) == wanted
    assert before == config(), "what came in is left as it was"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("noexec", "nodev"), ["rbind", "ro", "rprivate", "noexec", "nodev"]),
        (("rro",), ["rbind", "rprivate", "rro"]),
        (("nosuid", "rro"), ["rbind", "rprivate", "nosuid", "rro"]),
    ],
)
def test_mount_options(options: tuple[Any, ...], wanted: list[str]) -> None:
    assert mount(rewrite(config(), Wish(mount_options={"/data": options})), "/data") == {
        "destination": "/data",
        "type": "bind",
        "source": "/host",
        "options": wanted,
    }


def test_opposites_go_and_the_topmost_mount_counts() -> None:
    given = {"mounts": [{"destination": "/x", "options": ["exec"]}, {"destination": "/x", "options": ["exec", "suid"]}]}
    made = rewrite(given, Wish(mount_options={"/x": ("noexec", "nosuid")}))
    assert [mount["options"] for mount in made["mounts"]] == [["exec"], ["noexec", "nosuid"]]


def test_namespaces_are_joined_by_path_and_a_name_of_the_host_goes() -> None:
    made = rewrite(config(), Wish(namespaces={"network": "/run/net", "uts": "/run/uts"}))
    assert sorted(made["linux"]["namespaces"], key=str) == sorted(
        [{"type": "mount"}, {"type": "network", "path": "/run/net"}, {"type": "uts", "path": "/run/uts"}], key=str
    )
    assert "hostname" not in made
    assert rewrite(config(), Wish(namespaces={"ipc": "/run/ipc"}))["hostname"] == "pod"


def test_files_and_shared_memory() -> None:
    made = rewrite(config(), Wish(files={"/etc/hosts": "/ours/hosts", "/etc/new": "/ours/new"}, shm_source="/ours/shm"))
    assert mount(made, "/etc/hosts") == mount(config(), "/etc/hosts") | {"source": "/ours/hosts"}
    assert (mount(made, "/etc/new")["source"], mount(made, "/etc/new")["type"]) == ("/ours/new", "bind")
    shm = mount(made, "/dev/shm")
    assert shm["source"] == "/ours/shm"
    assert {"rbind", "nosuid", "noexec", "nodev"} <= set(shm["options"])
    own = mount(rewrite(config(), Wish(shm_size=MIB)), "/dev/shm")
    assert own["type"] == "tmpfs"
    assert f"size={MIB}" in own["options"]
    assert mount(rewrite({"mounts": []}, Wish(shm_size=MIB)), "/dev/shm") == own


def test_an_exec_gets_what_is_wished_for_processes() -> None:
    process = config()["process"]
    made = rewrite_process(process, Wish(ambient=(KILL,), unified={"a": "b"}))
    assert made == rewrite(config(), Wish(ambient=(KILL,)))["process"]
    assert [Wish(ambient=(KILL,)).for_exec, Wish(unified={"a": "b"}).for_exec] == [True, False]


@pytest.mark.parametrize(
    ("given", "wish"),
    [
        ({"mounts": []}, Wish(mount_options={"/data": ("noexec",)})),
        ({"mounts": "x"}, Wish(mount_options={"/data": ("noexec",)})),
        ({"mounts": [7]}, Wish(files={"/etc/hosts": "/x"})),
        ({"mounts": [{"destination": "/data", "options": [1]}]}, Wish(mount_options={"/data": ("noexec",)})),
        ({"process": []}, Wish(ambient=(KILL,))),
        ({"linux": {"resources": 1}}, Wish(unified={"a": "b"})),
        ({"linux": {"namespaces": {}}}, Wish(namespaces={"ipc": "/x"})),
    ],
    ids=str,
)
def test_what_does_not_fit_is_an_error(given: dict[str, Any], wish: Wish) -> None:
    with pytest.raises(UnfitConfig):
        rewrite(given, wish)


# --- any configuration, any wish

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.sampled_from(["/a", "/b", "/dev/shm", "/etc/hosts"])
CAPS = st.lists(st.sampled_from([KILL, CHOWN, "CAP_SYSLOG"]), unique=True)
KINDS = st.sampled_from(["network", "ipc", "uts", "user"])
OPTIONS = st.lists(st.sampled_from(["rbind", "ro", "rw", "rro", "exec", "noexec", "nodev", "suid"]), unique=True)
ANYTHING = st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2))


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Configurations that hold whatever a wish can be about, and other things beside it."""
    made = config()
    made["extra"] = draw(ANYTHING)
    made["process"]["capabilities"] = {name: draw(CAPS) for name in draw(st.sets(st.sampled_from(SETS)))}
    made["mounts"] = [
        {"destination": path, "options": draw(OPTIONS), "source": draw(NAMES), "extra": draw(ANYTHING)}
        for path in draw(st.lists(PATHS | st.just("/z"), max_size=5))
    ]
    made["linux"]["extra"] = draw(ANYTHING)
    made["linux"]["resources"]["unified"] = draw(st.dictionaries(NAMES, NAMES))
    made["linux"]["namespaces"] = [{"type": kind} for kind in draw(st.lists(KINDS | st.just("mount"), unique=True))]
    return made


WISHES = st.builds(
    Wish,
    ambient=(CAPS | st.just(["ALL"])).map(tuple),
    mount_options=st.dictionaries(
        PATHS, st.lists(st.sampled_from(["noexec", "nodev", "nosuid", "rro"]), min_size=1, unique=True).map(tuple)
    ),
    unified=st.dictionaries(NAMES, NAMES),
    hugepage_limits=st.dictionaries(st.sampled_from(["2MB", "1GB"]), st.integers(0, 9)).map(
        lambda found: tuple(HugepageLimit(page_size=size, limit=limit) for size, limit in found.items())
    ),
    namespaces=st.dictionaries(KINDS, PATHS),
    files=st.dictionaries(PATHS, PATHS),
    shm_source=st.sampled_from(["", "/shm"]),
    shm_size=st.integers(0, 2),
    sysctls=st.dictionaries(NAMES, NAMES),
    id_mappings=st.none() | st.just(IDMappings(uids=(RUN,), gids=(RUN,))),
)


def rest(made: dict[str, Any], wish: Wish) -> dict[str, Any]:
    """A configuration without all that a wish is about."""
    made = copy.deepcopy(made)
    linux, process = made["linux"], made["process"]
    if wish.ambient:
        del process["capabilities"]
    if "uts" in wish.namespaces:
        made.pop("hostname", None)
    if wish.id_mappings:
        linux.pop("uidMappings", None), linux.pop("gidMappings", None)
    linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] not in wish.namespaces]
    for name in wish.sysctls:
        linux["sysctl"].pop(name, None)
    resources = linux["resources"]
    resources["unified"] = {name: value for name, value in resources["unified"].items() if name not in wish.unified}
    if wish.hugepage_limits:
        resources.pop("hugepageLimits", None)
    shm = {"/dev/shm"} if wish.shm_source or wish.shm_size else set()
    last = {one["destination"]: number for number, one in enumerate(made["mounts"])}
    kept = []
    for number, one in enumerate(made["mounts"]):
        place = one["destination"]
        if number != last[place] or place not in wish.mount_options.keys() | wish.files.keys() | shm:
            kept.append(one)
        elif place not in shm:
            gone = ("options",) if place in wish.mount_options else ()
            kept.append({k: v for k, v in one.items() if k not in gone and not (k == "source" and place in wish.files)})
    made["mounts"] = kept
    return made


@settings(max_examples=150, deadline=None)
@given(configs(), WISHES)
def test_nothing_else_changes_and_twice_is_once(given_config: dict[str, Any], wish: Wish) -> None:
    before = copy.deepcopy(given_config)
    there = {one["destination"] for one in given_config["mounts"]} | wish.files.keys()
    there |= {"/dev/shm"} if wish.shm_source or wish.shm_size else set()
    if wish.mount_options.keys() - there:
        with pytest.raises(UnfitConfig):
            rewrite(given_config, wish)
        return
    made = rewrite(given_config, wish)
    assert given_config == before
    assert rewrite(made, wish) == made
    assert json.loads(json.dumps(made)) == made
    absent = wish.files.keys() - {one["destination"] for one in given_config["mounts"]}
    added = copy.deepcopy(made)
    added["mounts"] = [
        one for one in made["mounts"] if one["destination"] not in absent - {"/dev/shm"} or "extra" in one
    ]
    if "/dev/shm" in absent and not (wish.shm_source or wish.shm_size):
        added["mounts"] = [one for one in added["mounts"] if one["destination"] != "/dev/shm"]
    assert rest(added, wish) == rest(before, wish)
    assert (made == before) or wish != NOTHING
