"""Checks of damaged state: the server starts, believes nothing false, keeps what it could not read, and goes on."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from crishim.testing.checkpoint_contract.place import Place, by_id
from crishim.testing.checkpoint_contract.records import make_record

_RECORDS = [make_record(f"pod-{number}", containers=2) for number in range(8)]


def _truncate_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def _truncate_to_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _truncate_by_one(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _overwrite_with_noise(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size or 100))  # noqa: S311 - the same noise each time


def _overwrite_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _noise_at_the_beginning(path: Path) -> None:
    _patch(path, 0, 64)


def _noise_in_the_middle(path: Path) -> None:
    _patch(path, path.stat().st_size // 2, 64)


def _noise_at_the_end(path: Path) -> None:
    _patch(path, max(0, path.stat().st_size - 64), 64)


def _flip_bits(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for position in range(min(40, len(data) // 2), len(data), max(1, len(data) // 20)):
        data[position] ^= 4
    path.write_bytes(data)


def _append_noise(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\xffnoise\x00" * 50)


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").write_text("x")


def _replace_by_loop(path: Path) -> None:
    """What cannot be read whoever asks (permissions stop nobody who is root)."""
    path.unlink()
    path.symlink_to(path.name)


_HARM: tuple[Callable[[Path], None], ...] = (
    _truncate_to_nothing,
    _truncate_to_half,
    _truncate_by_one,
    _overwrite_with_noise,
    _overwrite_with_zeros,
    _noise_at_the_beginning,
    _noise_in_the_middle,
    _noise_at_the_end,
    _flip_bits,
    _append_noise,
    _replace_by_folder,
    _replace_by_loop,
)


async def check_damaged_files(place: Place) -> None:
    """Each file of the store is damaged in each way."""
    for number, (harm, file) in enumerate(_cases(await _filled(place, "whole"))):
        case = await _filled(place, f"case-{number}")
        harm(case.state_dir / file)
        await _assert_survived(case, f"{file}: {harm.__name__.strip('_')}", must_tell=True)


async def check_all_files_damaged(place: Place) -> None:
    """All at once."""
    for number, harm in enumerate(_HARM):
        case = await _filled(place, f"case-{number}")
        for file in _files(case.state_dir):
            if _applies(harm, case.state_dir / file):
                harm(case.state_dir / file)
        await _assert_survived(case, harm.__name__.strip("_"), must_tell=True)


async def check_missing_files(place: Place) -> None:
    """Each file is gone; then the whole folder."""
    whole = await _filled(place, "whole")
    for number, file in enumerate(_files(whole.state_dir)):
        case = await _filled(place, f"case-{number}")
        (case.state_dir / file).unlink()
        await _assert_survived(case, f"{file} missing", must_tell=False)
    shutil.rmtree(whole.state_dir)
    await _assert_survived(whole, "folder missing", must_tell=False)


async def check_file_in_place_of_folder(place: Place) -> None:
    """Each folder inside the state folder became a file."""
    whole = await _filled(place, "whole")
    folders = [Path(d, n).relative_to(whole.state_dir) for d, names, _ in os.walk(whole.state_dir) for n in names]
    for number, folder in enumerate(folders):
        case = await _filled(place, f"case-{number}")
        shutil.rmtree(case.state_dir / folder)
        (case.state_dir / folder).write_text("no folder")
        await _assert_survived(case, f"{folder} a file", must_tell=True)


async def _filled(place: Place, name: str) -> Place:
    """A place of its own with all records, closed in order."""
    case = type(place)(factory=place.factory, state_dir=place.state_dir / name)
    async with case.store() as store:
        for record in _RECORDS:
            await store.put(record)
        await store.put_value("key", "value")
    return case


def _files(folder: Path) -> list[Path]:
    return sorted(Path(where, name).relative_to(folder) for where, _, names in os.walk(folder) for name in names)


def _cases(whole: Place) -> Iterator[tuple[Callable[[Path], None], Path]]:
    for file in _files(whole.state_dir):
        for harm in _HARM:
            if _applies(harm, whole.state_dir / file):
                yield harm, file


def _applies(harm: Callable[[Path], None], path: Path) -> bool:
    """Whether an empty file (a lock, say) can be harmed like that."""
    return path.stat().st_size > 0 or harm in (_append_noise, _replace_by_folder, _replace_by_loop)


async def _assert_survived(case: Place, what: str, *, must_tell: bool) -> None:
    """The store opens, holds nothing false, tells what is lost and keeps it, and works."""
    async with case.store() as store:
        loaded = await store.load()
        records = by_id(loaded)
        originals = {record.id: record for record in _RECORDS}
        for sandbox_id, record in records.items():
            assert originals.get(sandbox_id) == record, f"{what}: a record that was never put"
        lost = [record for record in _RECORDS if record.id not in records]
        if lost and must_tell:
            assert loaded.set_aside, f"{what}: {len(lost)} records lost without a word"
        for aside in loaded.set_aside:
            assert aside.name and aside.reason and aside.kept_at, f"{what}: {aside}"  # noqa: PT018 - one thought
        value = await store.get_value("key")
        assert value in (None, "value"), f"{what}: a value that was never put"
        for record in lost:
            await store.put(record)
        await store.put_value("key", "value")
        again = await store.load()
        assert again.set_aside == (), f"{what}: told twice"
        assert by_id(again) == originals, f"{what}: the store does not work"
    loaded = await case.contents()
    assert by_id(loaded) == originals, f"{what}: what was put afterwards is lost"
    assert loaded.set_aside == (), f"{what}: told again by the next server"


def _patch(path: Path, offset: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(random.Random(2).randbytes(length))  # noqa: S311 - the same noise each time
