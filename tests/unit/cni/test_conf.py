"""Reading configurations: what is accepted, and that faults are named with file and position."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni import conf
from cni.errors import ConfError

GOOD = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge", "mtu": 9000}, {"type": "portmap"}]}


def text(**changes) -> str:
    return json.dumps({key: value for key, value in (GOOD | changes).items() if value is not None})


def test_a_list():
    network = conf.parse_conflist(text(disableCheck=True))
    assert (network.name, network.cni_version) == ("net", "1.0.0")
    assert [plugin["type"] for plugin in network.plugins] == ["bridge", "portmap"]
    assert network.disable_check
    assert not network.disable_gc


def test_a_single_plugin_becomes_a_list():
    network = conf.parse_conflist('{"cniVersion": "0.3.1", "name": "net", "type": "bridge", "mtu": 9000}')
    assert network.name == "net"
    (plugin,) = network.plugins
    assert (plugin["type"], plugin["mtu"]) == ("bridge", 9000)


@pytest.mark.parametrize("source", [text(), text(disableGC=True, disableCheck="true", cniVersions=["0.4.0", "9.0.0"])])
def test_the_text_of_a_list_is_the_list(source):
    network = conf.parse_conflist(source)
    again = conf.parse_conflist(network.text)
    assert again == network


def test_the_newest_supported_version_is_spoken():
    assert conf.parse_conflist(text(cniVersions=["0.4.0", "1.1.0", "2.0.0"])).cni_version == "1.1.0"
    assert conf.parse_conflist(text(cniVersion=None, cniVersions=["0.4.0"])).cni_version == "0.4.0"


def test_whole_numbers_stay_whole():
    """A plugin in Go refuses 1000.0 and 1e3 where it wants an integer."""
    network = conf.parse_conflist(text().replace("9000", "9e3"))
    assert '"mtu":9000}' in network.text


@pytest.mark.parametrize(
    ("source", "position", "reason"),
    [
        ('{"name": "net",\n  "plugins": [}', "line 2 column 15", "Expecting value"),
        ("", "line 1 column 1", "Expecting value"),
        ("[]", "", "must be a JSON object"),
        ('{"a": NaN}', "", "NaN is not JSON"),
        ('{"a": 1e999}', "", "1e999 is too large"),
        ("[" * 100_000, "", "nested too deeply"),
        (text(name=None), "name", "must begin"),
        (text(name=""), "name", "must begin"),
        (text(name="../x"), "name", "must begin"),
        (text(name=7), "name", "must begin"),
        (text(cniVersion="2.0.0"), "cniVersion", "2.0.0 is not supported, only 0.1.0, "),
        (text(cniVersion=""), "cniVersion", "is not supported"),
        (text(cniVersion=1), "cniVersion", "must be a string"),
        (text(cniVersions=[1]), "cniVersions", "must be a list of strings"),
        (text(plugins=None), "plugins", "at least one"),
        (text(plugins=[]), "plugins", "at least one"),
        (text(plugins={}), "plugins", "must be a list"),
        (text(plugins=[{"type": "a"}, 7]), "plugins[1]", "must be an object"),
        (text(plugins=[{"type": "a"}, {}]), "plugins[1].type", "file name of a plugin"),
        (text(plugins=[{"type": "../../bin/sh"}]), "plugins[0].type", "without a folder"),
        (text(plugins=[{"type": ".."}]), "plugins[0].type", "without a folder"),
        (text(plugins=[{"type": "a", "capabilities": {"x": 1}}]), "plugins[0].capabilities", "true and false"),
        (text(disableCheck="perhaps"), "disableCheck", "must be true or false"),
        (text(disableGC=0), "disableGC", "must be true or false"),
    ],
)
def test_faults_are_named(source, position, reason):
    with pytest.raises(ConfError) as caught:
        conf.parse_conflist(source, "/etc/cni/net.d/10-x.conflist")
    assert caught.value.position == position
    assert reason in caught.value.reason
    assert str(caught.value).startswith("/etc/cni/net.d/10-x.conflist: ")


def write(folder: Path, name: str, content: str | bytes) -> None:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def test_a_folder_is_read_sorted_and_bad_files_are_passed_over(tmp_path: Path):
    write(tmp_path, "20-b.conflist", text(name="b"))
    write(tmp_path, "10-broken.conflist", "{")
    write(tmp_path, "15-a.json", text(name="a"))
    write(tmp_path, "30-c.conf", '{"cniVersion": "1.0.0", "name": "c", "type": "ptp"}')
    write(tmp_path, "40-b.conf", '{"cniVersion": "1.0.0", "name": "b", "type": "ptp"}')
    write(tmp_path, "05-x.conflist.bak", text(name="x"))
    write(tmp_path, "50-latin.conf", b'{"name": "\xe9"}')
    (tmp_path / "00-folder.conf").mkdir()
    loaded = conf.load_dir(str(tmp_path))
    assert [network.name for network in loaded.networks] == ["a", "b", "c"]
    assert [Path(fault.path).name for fault in loaded.faults] == ["10-broken.conflist", "40-b.conf", "50-latin.conf"]
    assert loaded.faults[2].position == "byte 10"
    first, faults = conf.load_first(str(tmp_path))
    assert first is not None
    assert first.path == str(tmp_path / "15-a.json")
    assert [Path(fault.path).name for fault in faults] == ["10-broken.conflist"]


def test_missing_and_empty_folders(tmp_path: Path):
    assert conf.load_dir(str(tmp_path)) == conf.Loaded((), ())
    assert conf.load_first(str(tmp_path / "missing")) == (None, ())


def test_huge_file(tmp_path: Path):
    write(tmp_path, "a.conf", b" " * (2 << 20))
    _, (fault,) = conf.load_first(str(tmp_path))
    assert "larger than" in str(fault)


def test_plugins_in_the_folder_of_the_network_s_name_are_appended(tmp_path: Path):
    write(tmp_path, "10-net.conflist", text())
    (tmp_path / "net").mkdir()
    write(tmp_path / "net", "20-tuning.conf", '{"type": "tuning"}')
    write(tmp_path / "net", "10-bandwidth.conf", '{"type": "bandwidth"}')
    write(tmp_path / "net", "note.txt", "x")
    network, _ = conf.load_first(str(tmp_path))
    assert network is not None
    assert [plugin["type"] for plugin in network.plugins] == ["bridge", "portmap", "bandwidth", "tuning"]
    assert conf.parse_conflist(network.text).plugins == network.plugins

    write(tmp_path, "10-net.conflist", text(loadOnlyInlinedPlugins=True))
    network, _ = conf.load_first(str(tmp_path))
    assert network is not None
    assert len(network.plugins) == 2

    write(tmp_path, "10-net.conflist", text(plugins=None))
    network, _ = conf.load_first(str(tmp_path))
    assert network is not None
    assert len(network.plugins) == 2

    write(tmp_path / "net", "30-bad.conf", '{"type": "a/b"}')
    network, (fault,) = conf.load_first(str(tmp_path))
    assert network is None
    assert fault.path.endswith("30-bad.conf")
    assert fault.position == "type"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "cniVersion",
    "cniVersions",
    "name",
    "plugins",
    "type",
    "disableCheck",
    "loadOnlyInlinedPlugins",
    "capabilities",
]


@given(st.text() | JSON.map(json.dumps))
def test_any_text_is_read_or_refused(source):
    with pytest.raises(ConfError):
        conf.parse_conflist(source)


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
def test_any_value_of_the_known_keys_is_read_or_refused(changes):
    try:
        network = conf.parse_conflist(text(**changes))
    except ConfError:
        return
    assert conf.parse_conflist(network.text) == network
