"""The choice of a backend, its status, and the backend none.  No plugin is run."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from crishim.errors import InvalidArgument, NetworkFailed, NetworkNotReady, Unimplemented, UnsupportedField
from crishim.model import PortMapping
from crishim.network.api import Attached, NetworkStatus, PodAttachment, PodNetwork
from crishim.network.memory import NetworkMemory
from crishim.network.select import make_network

POD = PodAttachment(sandbox_id="s1", netns_path="/run/netns/crishim-s1", name="web", namespace="shop", uid="u-1")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "bin").mkdir()
    return tmp_path / "conf"


def make(conf: Path, choice: str = "auto") -> PodNetwork:
    return make_network(
        choice, conf_dir=str(conf), bin_dirs=[str(conf.parent / "bin")], state_dir=str(conf.parent / "state")
    )


def install(conf: Path, name: str = "10-net.conflist", plugin: str = "bridge", **more) -> None:
    entry = {"type": plugin} | more
    (conf / name).write_text(json.dumps({"cniVersion": "1.0.0", "name": name.partition(".")[0], "plugins": [entry]}))
    path = conf.parent / "bin" / plugin
    path.touch()
    path.chmod(0o755)


def test_a_network_that_is_not_installed_is_refused_by_name(conf):
    with pytest.raises(Unimplemented, match="no network 'overlay': choose auto, cni, embedded, none"):
        make(conf, "overlay")


async def test_none(conf):
    network = make(conf, "none")
    await network.start()
    assert network.name == "none"
    assert network.status() == NetworkStatus(True)
    planned = network.plan(POD)
    assert await network.attach(POD, planned) == planned
    assert planned.ips == ()
    await network.check(POD, planned)
    for attached in (planned, planned, None):
        await network.detach(POD, attached)
    network.set_pod_cidr("10.0.0.0/24")
    await network.gc({"s1": planned})
    await network.close()


def test_none_refuses_host_ports(conf):
    network = make(conf, "none")
    harmless = PortMapping(container_port=80)
    network.plan(replace(POD, port_mappings=(harmless,)))
    with pytest.raises(UnsupportedField, match="host port 8080 needs a pod network") as caught:
        network.plan(replace(POD, port_mappings=(harmless, PortMapping(container_port=80, host_port=8080))))
    assert caught.value.field == "config.port_mappings[1].host_port"


def test_an_empty_folder_is_not_ready_with_the_reason(conf):
    status = make(conf, "cni").status()
    assert status == NetworkStatus(False, "NetworkConfigMissing", f"no network configuration in {conf}")
    with pytest.raises(NetworkNotReady, match="no network configuration"):
        make(conf, "cni").plan(POD)


def test_auto_says_what_it_waits_for(conf):
    """It never serves addresses of its own on a node that has, ever had, or prepares for a cluster network."""
    alone = make(conf)
    assert (alone.name, alone.status(), alone.plan(POD).backend) == ("embedded", NetworkStatus(True), "embedded")
    (conf.parent / "bin" / "bridge").touch()
    assert alone.name == "cni"
    assert alone.status().reason == "NetworkConfigMissing"
    assert "bin holds plugins, so this node waits" in alone.status().message
    install(conf)
    assert make(conf).status().ready
    (conf / "10-net.conflist").unlink()
    (conf.parent / "bin" / "bridge").unlink()
    later = make(conf)  # a later process: it is in the state folder
    assert "there was one" in later.status().message
    assert "10-net.conflist" in later.status().message
    with pytest.raises(NetworkNotReady):
        later.plan(POD)


def test_auto_takes_a_broken_configuration_for_a_cluster_s(conf):
    (conf / "05-x.conflist").write_text("{")
    assert make(conf).status().reason == "NetworkConfigInvalid"


UNFIT = ["10.0.0.0/31", "127.4.0.0/16", "0.0.0.0/0", "169.254.1.0/24", "230.0.0.0/8", "::/0", "::/64", "fe80:1::/64"]


@pytest.mark.parametrize("bad", [*UNFIT, "10.0.0.0/8,10.9.0.0/16", "", "all"])
def test_ranges_that_cannot_be_used_are_refused(conf, bad):
    with pytest.raises(InvalidArgument):
        make_network("embedded", conf_dir=str(conf), bin_dirs=[], pod_cidr=bad)


@pytest.mark.parametrize("bad", UNFIT)
def test_a_kubelet_s_range_that_cannot_be_used_is_refused_and_forgotten(conf, bad):
    network = make(conf, "embedded")
    network.set_pod_cidr("10.244.1.0/24")
    with pytest.raises(InvalidArgument):
        network.set_pod_cidr(bad)
    assert "10.244.1.0/24" in make(conf, "embedded").plan(POD).config


@pytest.mark.parametrize("bad", ["127.0.0.0/8", "garbage"])
def test_a_remembered_range_that_cannot_be_used_does_not_keep_the_server_from_starting(conf, bad, caplog):
    NetworkMemory(str(conf.parent / "state")).put("pod_cidr", bad)
    assert "10.86.0.0/16" in make(conf, "embedded").plan(POD).config
    assert "is not used" in caplog.text
    assert NetworkMemory(str(conf.parent / "state")).get("pod_cidr") == ""


def test_the_kubelet_s_range_goes_before_ours(conf):
    network = make(conf, "embedded")
    network.set_pod_cidr("10.244.1.0/24,fd00:1::/64")
    network.set_pod_cidr("")
    ranges = json.loads(make(conf, "embedded").plan(POD).config)["plugins"][0]["ipam"]["ranges"]
    assert ranges == [[{"subnet": "10.244.1.0/24"}], [{"subnet": "fd00:1::/64"}]]


def test_a_plan_has_only_the_plugins_that_the_pod_asks_for(conf):
    def types(pod: PodAttachment) -> list[str]:
        return [plugin["type"] for plugin in json.loads(make(conf, "embedded").plan(pod).config)["plugins"]]

    port = replace(POD, port_mappings=(PortMapping(container_port=80, host_port=8080),))
    assert types(POD) == ["bridge"]
    assert types(port) == ["bridge", "portmap"]
    limited = replace(port, annotations={"kubernetes.io/ingress-bandwidth": "1M"})
    assert types(limited) == ["bridge", "portmap", "bandwidth"]


def test_a_host_port_at_the_ipv6_loopback_is_refused_before_anything_is_made(conf):
    port = PortMapping(container_port=80, host_port=8080, host_ip="0:0::1")
    with pytest.raises(UnsupportedField, match=r"port_mappings\[0\].host_ip: the kernel"):
        make(conf, "embedded").plan(replace(POD, port_mappings=(port,)))


def test_the_folder_is_watched(conf):
    network = make(conf, "cni")
    assert not network.status().ready
    install(conf, "20-b.conflist")
    assert network.status() == NetworkStatus(True)
    assert json.loads(network.plan(POD).config)["name"] == "20-b"
    install(conf, "10-a.conflist")
    assert json.loads(network.plan(POD).config)["name"] == "10-a"
    install(conf, "10-a.conflist", mtu=9000)  # changed in place
    assert json.loads(network.plan(POD).config)["plugins"][0]["mtu"] == 9000
    for name in ("10-a.conflist", "20-b.conflist"):
        (conf / name).unlink()
    assert network.status().reason == "NetworkConfigMissing"


def test_broken_configurations_are_named_and_passed_over(conf):
    (conf / "05-x.conflist").write_text('{"name": }')
    network = make(conf)
    status = network.status()
    assert status.reason == "NetworkConfigInvalid"
    assert status.message == f"{conf}/05-x.conflist: line 1 column 10: Expecting value"
    install(conf)
    assert network.status().ready


BAD = {
    "broken JSON": ('{"name": }', "line 1 column 10: Expecting value"),
    "unknown plugin": (
        '{"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "bridge"}, {"type": "nowhere"}]}',
        "plugins[1].type: plugin 'nowhere': no executable of this name in ",
    ),
    "wrong version": (
        '{"cniVersion": "9.9.9", "name": "x", "plugins": [{"type": "bridge"}]}',
        "cniVersion: 9.9.9 is not supported, only 0.1.0, ",
    ),
    "empty plugin list": (
        '{"cniVersion": "1.0.0", "name": "x", "plugins": []}',
        "plugins: must hold at least one plugin",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_conflist_is_named_and_the_next_one_used(conf, bad):
    """The status is ready and says which file is passed over, where in it, and why."""
    text, words = BAD[bad]
    (conf / "05-x.conflist").write_text(text)
    install(conf)
    network = make(conf)
    status = network.status()
    assert (status.ready, status.reason) == (True, "NetworkConfigPassedOver")
    assert status.message.startswith(f"{conf}/10-net.conflist is used; {conf}/05-x.conflist: {words}")
    assert json.loads(network.plan(POD).config)["name"] == "10-net"
    (conf / "05-x.conflist").unlink()
    assert network.status() == NetworkStatus(True)


def test_of_two_networks_of_one_name_the_first_is_used(conf):
    install(conf)
    (conf / "20-twin.conflist").write_text((conf / "10-net.conflist").read_text())
    network = make(conf)
    status = network.status()
    assert (status.ready, status.reason) == (True, "NetworkConfigPassedOver")
    twin = f"{conf}/20-twin.conflist: name: '10-net' is the name of the network in {conf}/10-net.conflist"
    assert status.message == f"{conf}/10-net.conflist is used; {twin}"
    assert json.loads(network.plan(POD).config)["name"] == "10-net"
    (conf / "10-net.conflist").unlink()
    assert network.status() == NetworkStatus(True)


def test_a_plugin_that_is_installed_later_brings_its_network_back(conf):
    """Without a change of the folder of configurations; so does one that is taken away."""
    install(conf)
    (conf / "05-x.conflist").write_text(BAD["unknown plugin"][0])
    network = make(conf)
    assert json.loads(network.plan(POD).config)["name"] == "10-net"
    plugin = conf.parent / "bin" / "nowhere"
    plugin.touch(0o755)
    assert network.status() == NetworkStatus(True)
    assert json.loads(network.plan(POD).config)["name"] == "x"
    plugin.unlink()
    assert json.loads(network.plan(POD).config)["name"] == "10-net"
    assert network.status().reason == "NetworkConfigPassedOver"


def test_a_missing_plugin_is_named(conf):
    install(conf)
    network = make(conf)
    assert network.status().ready
    os.unlink(conf.parent / "bin" / "bridge")
    status = network.status()
    assert (status.ready, status.reason) == (False, "PluginMissing")
    assert "'bridge'" in status.message


def test_only_declared_capabilities_are_in_the_plan(conf):
    install(conf, capabilities={"ipRanges": True, "portMappings": False})
    network = make(conf)
    network.set_pod_cidr("10.244.1.0/24")
    network.set_pod_cidr("")  # ignored
    with pytest.raises(InvalidArgument):
        network.set_pod_cidr("all")
    planned = make(conf).plan(POD)  # a later process knows it too
    assert planned.backend == "cni"
    assert planned.interface == "eth0"
    assert json.loads(planned.args) == {
        "args": {
            "IgnoreUnknown": "1",
            "K8S_POD_NAMESPACE": "shop",
            "K8S_POD_NAME": "web",
            "K8S_POD_INFRA_CONTAINER_ID": "s1",
            "K8S_POD_UID": "u-1",
        },
        "capabilityArgs": {"ipRanges": [[{"subnet": "10.244.1.0/24"}]]},
    }


def test_a_link_that_leads_nowhere_hides_no_network_that_comes_later(conf):
    (conf / "00-gone.conflist").symlink_to(conf / "nowhere")
    network = make(conf, "cni")
    assert not network.status().ready
    install(conf)
    assert network.status() == NetworkStatus(True)


async def test_records_of_unknown_backends_are_not_lost(conf):
    network = make(conf)
    for verb in (network.detach, network.check, network.attach):
        with pytest.raises(NetworkFailed, match="'overlay', which is missing"):
            await verb(POD, Attached(backend="overlay"))


async def test_nothing_known_nothing_done(conf):
    await make(conf).detach(POD, None)


@pytest.mark.parametrize("bad", [{"args": "x"}, {"args": "{}"}, {"args": "[]"}, {"config": "{"}, {"config": "[]"}])
async def test_damaged_records_are_told(conf, bad):
    install(conf)
    network = make(conf)
    record = {"backend": "cni", "config": network.plan(POD).config, "args": network.plan(POD).args} | bad
    with pytest.raises(NetworkFailed):
        await network.detach(POD, Attached(**record))


@pytest.mark.parametrize("content", ["", "[]", '{"pod_cidr": 7}', "\0"])
def test_a_damaged_memory_is_empty(tmp_path: Path, content):
    (tmp_path / "network.json").write_text(content)
    memory = NetworkMemory(str(tmp_path))
    assert memory.get("pod_cidr") == ""
    memory.put("pod_cidr", "10.0.0.0/24")
    assert NetworkMemory(str(tmp_path)).get("pod_cidr") == "10.0.0.0/24"
    assert os.listdir(tmp_path) == ["network.json"]


def test_a_memory_without_folder_forgets(tmp_path: Path):
    NetworkMemory(None).put("a", "b")
    assert NetworkMemory(None).get("a") == ""
    (tmp_path / "file").touch()
    memory = NetworkMemory(str(tmp_path / "file"))  # cannot be written
    memory.put("a", "b")
    assert memory.get("a") == "b"
