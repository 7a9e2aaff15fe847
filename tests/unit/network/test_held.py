"""Files of a pod that no process holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crishim.network.held import _write
from crishim.runtime.anchored import pod


def test_a_hosts_file_is_shown_byte_by_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods on the host's network get the host's files, in whatever encoding somebody wrote a comment there."""
    content = b"127.0.0.1 localhost # caf\xe9\n"
    (tmp_path / "hosts").write_bytes(content)
    monkeypatch.setattr(pod, "FILES", {"hosts": str(tmp_path / "hosts")})
    _write(str(tmp_path / "shown"), pod.read_host_files()["hosts"], (os.getuid(), os.getgid()))
    assert (tmp_path / "shown").read_bytes() == content
