from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from crishim.rpc.unix_socket import ServerSocket, SocketTaken


def bind(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(os.fspath(path))
    return bound


def test_it_is_bound_for_owner_and_group_and_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run" / "c.sock"
    before = os.umask(0o022)
    try:
        with ServerSocket(path) as held:
            with held.binding():
                bound = bind(path)
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            assert os.umask(0o022) == 0o022, "the umask is put back"
            assert repr(held) == f"<ServerSocket {path} bound>"
            bound.close()
    finally:
        os.umask(before)
    assert list(path.parent.iterdir()) == []


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    bind(path).close()
    assert path.exists()
    with ServerSocket(path):
        assert not path.exists()


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with ServerSocket(path):
        with pytest.raises(SocketTaken, match=rf"{path} is served by process {os.getpid()}; stop it") as taken:
            ServerSocket(path).__enter__()
        assert "\n" not in str(taken.value)
        assert path.with_name("c.sock.lock").exists()
    with ServerSocket(path):
        pass


def test_a_living_server_without_our_lock_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with bind(path) as foreign:
        foreign.listen()
        with pytest.raises(SocketTaken, match=rf"served by process {os.getpid()};"):
            ServerSocket(path).__enter__()
        assert path.exists()
    assert not path.with_name("c.sock.lock").exists()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["folder", "file"])
def test_what_is_no_socket_is_left_alone(tmp_path: Path, make: object) -> None:
    path = tmp_path / "c.sock"
    make(path)  # type: ignore[operator]
    with pytest.raises(SocketTaken, match="is not a socket"):
        ServerSocket(path).__enter__()
    assert path.exists()


def test_the_lock_of_a_killed_owner_holds_nobody(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    program = (
        "import os, pathlib, socket, sys\n"
        "from crishim.rpc.unix_socket import ServerSocket\n"
        "held = ServerSocket(pathlib.Path(sys.argv[1])).__enter__()\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "with held.binding(): s.bind(sys.argv[1])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=30)
    assert path.exists()
    assert path.with_name("c.sock.lock").exists()
    with ServerSocket(path):
        assert not path.exists()


def test_a_socket_that_someone_else_put_there_since_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with ServerSocket(path) as held:
        with held.binding():
            bind(path).close()
        path.unlink()
        bind(path).close()
    assert path.exists()


def test_a_path_too_long_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 108)
    with pytest.raises(ValueError, match="may have 107 bytes"):
        ServerSocket(path)


def test_a_bind_that_bound_nothing_is_an_error(tmp_path: Path) -> None:
    with ServerSocket(tmp_path / "c.sock") as held, pytest.raises(OSError, match="was not bound"), held.binding():
        pass
