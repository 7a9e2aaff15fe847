"""A pod's resolv.conf is rewritten in place: containers have that very file mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from crishim.errors import NetnsError
from crishim.network.namespaces import KernelNamespaces


@pytest.mark.parametrize("text", ["", "nameserver 10.0.0.1\n", "search é." + "a" * 300 + "\n"])
async def test_the_same_file_has_the_new_text_and_nothing_else(text: str, tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 192.0.2.1\nsearch example.com\n")
    before = path.stat()
    await KernelNamespaces(str(tmp_path)).write_resolv_conf(str(path), text)
    assert path.read_text() == text
    assert (path.stat().st_ino, path.stat().st_mode) == (before.st_ino, before.st_mode)


async def test_a_file_that_is_not_there_or_elsewhere_is_named_and_left_alone(tmp_path: Path) -> None:
    link, precious = tmp_path / "resolv.conf", tmp_path / "precious"
    namespaces = KernelNamespaces(str(tmp_path))
    with pytest.raises(NetnsError, match=r"resolv\.conf cannot be rewritten: No such file"):
        await namespaces.write_resolv_conf(str(link), "nameserver 10.0.0.1\n")
    precious.write_text("precious")
    link.symlink_to(precious)
    with pytest.raises(NetnsError, match=r"resolv\.conf cannot be rewritten"):
        await namespaces.write_resolv_conf(str(link), "nameserver 10.0.0.1\n")
    assert precious.read_text() == "precious"
