"""Attachments in files."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from cni import Attachment, parse_conflist, parse_result
from cni.cache import AttachmentCache, CacheDamaged

NETWORK = parse_conflist('{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}]}')
ATTACHMENT = Attachment(
    container_id="c1", ifname="eth0", netns="/n", args={"A": "b"}, capability_args={"mac": "02:00:00:00:00:01"}
)
RESULT = parse_result('{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}]}', "1.0.0")


def test_kept_until_removed(tmp_path: Path) -> None:
    cache = AttachmentCache(str(tmp_path))
    assert cache.get("net", "c1", "eth0") is None
    assert cache.all() == ((), ())
    cache.put(NETWORK, ATTACHMENT)
    begun = cache.get("net", "c1", "eth0")
    assert begun is not None
    assert begun.result is None
    cache.put(NETWORK, ATTACHMENT, RESULT)
    ((kept,), damaged) = AttachmentCache(str(tmp_path)).all()
    assert (kept.attachment, kept.result, damaged) == (ATTACHMENT, RESULT, ())
    assert kept.network.plugins == NETWORK.plugins
    for _ in range(2):
        cache.remove("net", "c1", "eth0")
    assert cache.all() == ((), ())


def test_what_libcni_wrote(tmp_path: Path) -> None:
    """As its tools leave it, without the keys that it leaves out when they are empty."""
    (tmp_path / "results").mkdir()
    config = base64.b64encode(NETWORK.text.encode()).decode()
    entry = {"kind": "cniCacheV1", "containerId": "c2", "config": config, "ifName": "eth0", "networkName": "net"}
    (tmp_path / "results" / "net-c2-eth0").write_text(json.dumps(entry | {"result": RESULT.raw}))
    cached = AttachmentCache(str(tmp_path)).get("net", "c2", "eth0")
    assert cached is not None
    assert cached.attachment == Attachment(container_id="c2", ifname="eth0", netns="")
    assert cached.result == RESULT


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "Expecting value"),
        ("[]", "is not of the kind cniCacheV1"),
        ('{"kind": "cniCacheV1"}', "lacks 'config'"),
        ('{"kind": "cniCacheV1", "config": "e30=", "containerId": "c", "ifName": "e"}', "name: must begin"),
        ('{"kind": "cniCacheV1", "config": "%%"}', "base64"),
        ('{"kind": "cniCacheV1", "config": 5}', ""),
    ],
)
def test_damaged_files_are_named_and_do_not_hide_the_others(tmp_path: Path, content: str, words: str) -> None:
    cache = AttachmentCache(str(tmp_path))
    cache.put(NETWORK, ATTACHMENT)
    (tmp_path / "results" / "bad").write_text(content)
    kept, (fault,) = cache.all()
    assert len(kept) == 1
    assert fault.path == str(tmp_path / "results" / "bad")
    assert words in str(fault)
    (tmp_path / "results" / "net-c9-eth0").write_text(content)
    with pytest.raises(CacheDamaged):
        cache.get("net", "c9", "eth0")
