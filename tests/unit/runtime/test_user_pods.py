"""What is made for a pod with a user namespace, and what its containers are to find."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crishim.checkpoint.record import Phase, SandboxRecord
from crishim.errors import FrontFailed
from crishim.front import idmap
from crishim.model import (
    IDMapping,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    Mount,
    NamespaceMode,
    NamespaceOption,
    PodSandboxConfig,
    UserNamespace,
)
from crishim.network.held import Wanted
from crishim.runtime.anchored.pod import kinds_of, make_wanted, with_pod
from crishim.runtime.anchored.shifted import _with_locked, place_of, with_shifted
from crishim.runtime.oci.rewrite import rewrite
from crishim.runtime.oci.wish import NOTHING, Wish

UIDS, GIDS = (IDMapping(host_id=number, container_id=0, length=65_536) for number in (100_000, 200_000))
USER = UserNamespace(uids=(UIDS,), gids=(GIDS,))
SYSCTLS = {"net.core.somaxconn": "7", "kernel.msgmax": "9000"}


def pod(user: UserNamespace | None) -> PodSandboxConfig:
    options = NamespaceOption(pid=NamespaceMode.CONTAINER, userns_options=user)
    context = LinuxSandboxSecurityContext(namespace_options=options)
    return PodSandboxConfig(hostname="web", linux=LinuxPodSandboxConfig(security_context=context, sysctls=SYSCTLS))


def wish_of(user: UserNamespace | None) -> Wish:
    mounts = (
        Mount(container_path="/shifted/", host_path="/", uid_mappings=(UIDS,), gid_mappings=(GIDS,)),
        Mount(container_path="/plain", host_path="/"),
    )
    sandbox = SandboxRecord(id="s", phase=Phase.READY, config=pod(user), created_at=1, netns_path="/netns/s")
    return with_pod(None, sandbox, mounts, "/pods/s")


def test_what_is_made() -> None:
    wanted = make_wanted(pod(USER), "s", "", 1 << 20, {})
    assert wanted.kinds == {"network", "ipc", "uts", "user"}
    assert (wanted.uids, wanted.gids, wanted.owner) == (UIDS, GIDS, (100_000, 200_000))
    assert wanted.sysctls["net.core.somaxconn"] == "7"
    assert "kernel.msgmax" not in wanted.sysctls, "the host's root may not"
    plain = make_wanted(pod(None), "s", "", 1 << 20, {})
    assert (plain.uids, plain.owner) == (None, (0, 0))
    assert plain.sysctls["kernel.msgmax"] == "9000"
    assert Wanted(kinds=kinds_of(pod(UserNamespace(mode=NamespaceMode.NODE)))).uids is None


def test_what_containers_are_to_find() -> None:
    wish = wish_of(USER)
    assert wish.namespaces["user"] == "/pods/s/user"
    assert wish.sysctls == {"kernel.msgmax": "9000"}
    assert wish.shifted == ("/shifted",)
    made = rewrite({"linux": {"namespaces": [{"type": "mount"}]}}, wish)["linux"]
    assert {"type": "user", "path": "/pods/s/user"} in made["namespaces"]
    assert made["uidMappings"] == [{"containerID": 0, "hostID": 100_000, "size": 65_536}]
    assert made["gidMappings"] == [{"containerID": 0, "hostID": 200_000, "size": 65_536}]
    host = wish_of(None)
    assert (host.id_mappings, host.shifted, dict(host.sysctls)) == (None, (), {})
    assert "user" not in host.namespaces


def test_without_a_root_there_is_no_container(tmp_path: Path) -> None:
    place = place_of(str(tmp_path), "c")
    for config, wish in (({}, wish_of(USER)), ({"root": {"path": "/merged"}}, NOTHING)):
        with pytest.raises(FrontFailed, match="no root file system"):
            with_shifted(dict(config), wish, place)
    with pytest.raises(FrontFailed, match="no overlay"):
        with_shifted({"root": {"path": str(tmp_path)}}, wish_of(USER), place)
    assert not os.path.exists(place)


def test_whose_owners_are_shifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounts that ask for it, and volumes of the image that nobody asked for."""
    own = tmp_path / "volumes" / ("0f" * 32) / "_data"
    own.mkdir(parents=True)
    shifted: list[tuple[str, str]] = []
    monkeypatch.setattr(idmap, "make_root", lambda merged, place, _user, _owner: f"{place}/{merged}")

    def shift(source: str, target: str, _user: str) -> None:
        shifted.append((source, target))
        os.mkdir(target)

    monkeypatch.setattr(idmap, "shift", shift)
    sources = {"/shifted": "/proc", "/plain": "/sys", "/data": str(own)}
    mounts = [{"destination": place, "type": "bind", "source": source} for place, source in sources.items()]
    place = str(tmp_path)
    made = with_shifted({"root": {"path": "/merged"}, "mounts": mounts}, wish_of(USER), place)
    assert shifted == [("/proc", f"{place}/mount-0"), (str(own), f"{place}/mount-2")]
    assert [mount["source"] for mount in made["mounts"]] == [f"{place}/mount-0", "/sys", f"{place}/mount-2"]


def test_what_a_mount_forbids_stays_forbidden() -> None:
    assert _with_locked(["rbind", "nosuid", "ro"], "/proc") == ["rbind", "nosuid", "ro", "nodev", "noexec"]
