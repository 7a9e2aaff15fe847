"""Checks for stores that outlive their process: what was put is there when the next server starts."""

from __future__ import annotations

import os
import stat

from crishim.checkpoint.errors import StoreUnavailable
from crishim.checkpoint.record import SandboxRecord
from crishim.testing.checkpoint_contract.place import Place, by_id
from crishim.testing.checkpoint_contract.records import make_record, revision_of


async def check_survives_reopening(place: Place) -> None:
    """Records, deletions and values, many times over."""
    expected: dict[str, SandboxRecord] = {}
    for revision in range(5):
        async with place.store() as store:
            assert by_id(await store.load()) == expected
            for name in ("always", f"only-{revision}"):
                record = make_record(name, revision=revision)
                await store.put(record)
                expected[record.id] = record
            gone = make_record(f"only-{revision - 1}")
            await store.delete(gone.id)
            expected.pop(gone.id, None)
            if revision:
                assert await store.get_value("revision") == str(revision - 1)
            await store.put_value("revision", str(revision))
    loaded = await place.contents()
    assert by_id(loaded) == expected
    assert loaded.set_aside == ()


async def check_folder_is_made(place: Place) -> None:
    """A state folder that is not there yet is made, with those above it."""
    deeper = type(place)(factory=place.factory, state_dir=place.state_dir / "a" / "b")
    async with deeper.store() as store:
        await store.put(make_record("pod"))
    assert len((await deeper.contents()).records) == 1


async def check_second_server_is_refused(place: Place) -> None:
    """While a store is open another on the same folder cannot be; afterwards it can."""
    async with place.store() as store:
        await store.put(make_record("pod"))
        second = place.make()
        refusal = ""
        try:
            await second.open()
        except StoreUnavailable as error:
            refusal = str(error)
        finally:
            await second.close()
        assert refusal, "two servers on one state folder"
        assert str(place.state_dir) in refusal, refusal
        await store.put(make_record("pod", revision=1))
    (record,) = (await place.contents()).records
    assert revision_of(record) == 1


async def check_nobody_else_may_read(place: Place) -> None:
    """Records hold pods' environments, and so secrets."""
    async with place.store() as store:
        await store.put(make_record("pod"))
        await store.put_value("key", "value")
        for folder, _, names in os.walk(place.state_dir):
            for name in names:
                mode = os.stat(os.path.join(folder, name)).st_mode
                assert not mode & (stat.S_IRWXG | stat.S_IRWXO), f"{name}: {stat.filemode(mode)}"


async def check_thousand_records(place: Place) -> None:
    """A full node, and then some."""
    records = [make_record(f"pod-{number}", containers=2) for number in range(1000)]
    async with place.store() as store:
        for record in records:
            await store.put(record)
    assert by_id(await place.contents()) == {record.id: record for record in records}
