"""Views of images in the kernel: overlays of folders that stand for layers, in the test world's mount namespace."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from crishim.errors import ImageVolumeMountFailed
from crishim.images.overlay import find_inside, hide, is_shown, show
from crishim.images.views import OverlayViews
from tests.env import linux

pytestmark = pytest.mark.root
MS_RDONLY, MS_REMOUNT = 1, 32


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where a view is to be; taken away after the test."""
    yield tmp_path / "views" / "one"
    for point, *_ in reversed(linux.mounts()):
        if Path(point).is_relative_to(tmp_path):
            linux.umount(point)


def layers(folder: Path, *contents: dict[str, str]) -> list[str]:
    """Folders with these files, the topmost first."""
    made = []
    for number, files in enumerate(contents):
        layer = folder / f"layer{number}"
        layer.mkdir()
        for name, text in files.items():
            (layer / name).parent.mkdir(parents=True, exist_ok=True)
            (layer / name).write_text(text)
        made.append(str(layer))
    return made


def make(place: Path, *lower: str, daemon: int = 0) -> None:
    show(str(place), lower, str(place.parent / "empty"), daemon)


def test_the_topmost_layer_wins_and_takes_away(tmp_path: Path, place: Path) -> None:
    lower = layers(tmp_path, {"a": "new"}, {"a": "old", "b": "b", "gone": "x"})
    os.mknod(Path(lower[0], "gone"), 0o600 | 0o020000, 0)  # a whiteout
    make(place, *lower)
    assert sorted(path.name for path in place.iterdir()) == ["a", "b"]
    assert [(place / name).read_text() for name in "ab"] == ["new", "b"]


@pytest.mark.parametrize("count", [0, 1, 2, 126])
def test_any_number_of_layers(tmp_path: Path, place: Path, count: int) -> None:
    make(place, *layers(tmp_path, *({f"f{number}": "x"} for number in range(count))))
    assert len(list(place.iterdir())) == count
    before = linux.mounts()
    make(place)
    assert linux.mounts() == before, "nothing to do"
    hide(str(place))
    hide(str(place))
    assert (place.exists(), is_shown(str(place))) == (False, False)


@pytest.mark.parametrize("count", [1, 3])
def test_nobody_can_write(tmp_path: Path, place: Path, count: int) -> None:
    """Root cannot remount it: neither the view itself nor a bind of it."""
    make(place, *layers(tmp_path, *({"f": "x"} for _ in range(count))))
    bind = tmp_path / "bind"
    bind.mkdir()
    linux.mount(str(place), bind, None, linux.MS_BIND)
    for target in (place, bind):
        with pytest.raises(OSError, match="overlay on") as caught:
            linux.mount("overlay", target, "overlay", MS_REMOUNT)
        assert caught.value.errno == errno.EROFS
        linux.mount(None, target, None, MS_REMOUNT | linux.MS_BIND)  # the mount's own flag may go
        for change in (
            lambda path: (path / "new").touch(),
            lambda path: (path / "f").write_text("y"),
            lambda path: (path / "f").unlink(),
            lambda path: (path / "f").chmod(0o777),
        ):
            with pytest.raises(OSError, match="Read-only file system"):
                change(target)
    linux.umount(bind)


def test_what_is_found_inside_stays_inside(tmp_path: Path, place: Path) -> None:
    (lower,) = layers(tmp_path, {"data/deep/file": "x"})
    for name, target in (("abs", "/data/deep"), ("up", "../../../../data"), ("host", "/etc"), ("loop", "loop")):
        Path(lower, name).symlink_to(target)
    os.mkfifo(Path(lower, "fifo"))
    make(place, lower)
    root = str(place)
    for asked in ("data/deep", "abs", "up/deep", "./data/../data/deep/", "../../data/deep"):
        assert find_inside(root, asked) == f"{root}/data/deep", asked
    assert find_inside(root, "abs/file") == f"{root}/data/deep/file"
    for asked in ("none", "host", "loop", "data/deep/file/x", "fifo", "up/none", "a" * 300, "host/passwd"):
        with pytest.raises(ImageVolumeMountFailed):
            find_inside(root, asked)


def test_a_layer_that_is_gone(tmp_path: Path, place: Path) -> None:
    with pytest.raises(ImageVolumeMountFailed, match="/none: No such file"):
        make(place, str(tmp_path / "none"))
    assert not is_shown(str(place))


def test_an_engine_that_would_not_see_it(tmp_path: Path, place: Path) -> None:
    """One in a mount namespace of its own, which ours does not reach."""
    command = ["unshare", "--mount", "--propagation=private", "sh", "-c", "echo; exec sleep 1000"]
    engine = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert engine.stdout is not None
        assert engine.stdout.readline()
        with pytest.raises(ImageVolumeMountFailed, match="engine does not see"):
            make(place, *layers(tmp_path, {"f": "x"}), daemon=engine.pid)
        assert not place.exists()
        make(place, *layers(tmp_path / "views", {"f": "x"}), daemon=os.getpid())
    finally:
        engine.kill()
        engine.wait()
        assert engine.stdout is not None
        engine.stdout.close()


async def test_views_in_a_folder(tmp_path: Path, place: Path) -> None:
    views = OverlayViews(place.parent)
    image = f"sha256:{'0' * 64}"
    assert list(await views.all()) == []
    await views.show(image, layers(tmp_path, {"d/f": "x"}), 0)
    assert (await views.shown(image), list(await views.all())) == (True, [image])
    assert await views.find(image, "d") == f"{views.path(image)}/d"
    linux.umount(views.path(image))
    assert (await views.shown(image), list(await views.all())) == (False, [image]), "left half made"
    await views.hide(image)
    assert list(await views.all()) == []
    for strange in ("", "sha256:../x", "busybox"):
        with pytest.raises(ImageVolumeMountFailed):
            views.path(strange)
