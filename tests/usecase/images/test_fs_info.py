"""ImageFsInfo: part of a kubelet's handshake, so it answers whatever the engine does."""

from __future__ import annotations

import os
import time

from crishim.aiokit.background import Background
from crishim.errors import EngineUnavailable
from crishim.images.service import Images


def never_there():
    raise EngineUnavailable("not there")


async def test_one_file_system_with_what_is_used(node):
    before = time.time_ns()
    info = await node.images.fs_info()
    assert info.image == info.containers
    assert info.image.used_bytes == sum(image.size for image in node.engine.images.all()) > 0
    assert os.path.isdir(info.image.mountpoint)
    assert 0 < info.image.inodes_used <= os.statvfs(info.image.mountpoint).f_files
    assert before <= info.image.timestamp <= time.time_ns()
    assert not node.engine.calls


async def test_it_answers_while_the_engine_is_away(node):
    before = await node.images.fs_info()
    node.engine.go_down()
    after = await node.images.fs_info()
    assert (after.image.used_bytes, after.image.mountpoint) == (before.image.used_bytes, before.image.mountpoint)


async def test_it_answers_where_the_engine_was_never_reached():
    info = await Images(never_there, Background()).fs_info()
    assert info.image.used_bytes == 0
    assert os.path.isdir(info.image.mountpoint)
    assert info.image.timestamp > 0
