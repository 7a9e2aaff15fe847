"""Records as bytes: JSON, with the version checked before anything else is believed.

    {"version":1,"crc32":"89abcdef","id":"...","phase":"ready",...}

Fields at their default are left out: CRI's defaults are proto3's, which never change, and those of a record mean
"nothing". The version is always written, and an attachment to the network whole, as its defaults are choices. The
checksum is over all that follows it, so that a flipped bit in a label is damage and not another label; a record
without one is taken as it is, for a person may have mended it.

Unknown keys of a known version are skipped, on purpose. A later crishim that only adds an optional field keeps the
version, so that going back to an older one reads its records; a change that an older one must not overlook takes a new
version, which the older one refuses. Everything else is strict: a number where text belongs is damage, not something to
convert.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from crishim.checkpoint.errors import CorruptRecord, FutureVersion
from crishim.checkpoint.record import RECORD_VERSION, SandboxRecord
from crishim.network.api import Attached

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_HEAD = re.compile(rb'\{"version":\d{1,9},"crc32":"([0-9a-f]{8})",')


@functools.cache
def _adapter() -> TypeAdapter[SandboxRecord]:
    # Building it takes 60 ms once: not at import, and not in a process that stores nothing.
    from pydantic import TypeAdapter

    return TypeAdapter(SandboxRecord)


@functools.cache
def _network_adapter() -> TypeAdapter[Attached]:
    from pydantic import TypeAdapter

    return TypeAdapter(Attached)


def encode(record: SandboxRecord) -> bytes:
    """A record as JSON."""
    body = _adapter().dump_json(record, exclude_defaults=True, exclude={"version", "network"}, fallback=_as_dict)[1:]
    if record.network is not None:
        body = b'"network":%b,%b' % (_network_adapter().dump_json(record.network), body)
    return b'{"version":%d,"crc32":"%08x",%b' % (record.version, zlib.crc32(body), body)


def decode(data: bytes, sandbox_id: str) -> SandboxRecord:
    """The record in these bytes, which lay where that of `sandbox_id` belongs.

    Raises FutureVersion, or CorruptRecord for whatever is no record of this sandbox.
    """
    if (head := _HEAD.match(data)) is not None and zlib.crc32(memoryview(data)[head.end() :]) != int(head[1], 16):
        raise CorruptRecord("checksum does not fit")
    try:
        record = _adapter().validate_json(data, strict=True)
    except ValueError as error:
        version = _version(data)
        if version > RECORD_VERSION:
            raise FutureVersion(f"version {version}, this crishim knows {RECORD_VERSION}") from error
        raise CorruptRecord(_first_line(error)) from error
    if record.version > RECORD_VERSION:
        raise FutureVersion(f"version {record.version}, this crishim knows {RECORD_VERSION}")
    if record.version < 1:
        raise CorruptRecord(f"version {record.version}")
    if record.id != sandbox_id:
        raise CorruptRecord(f"record of sandbox {record.id!r} in the place of {sandbox_id!r}")
    for key, container in record.containers.items():
        if key != container.id:
            raise CorruptRecord(f"container {container.id!r} in the place of {key!r}")
    return record


def _as_dict(value: object) -> object:
    """Read-only and other mappings, which JSON knows only as objects."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def _version(data: bytes) -> int:
    """The version of bytes that could not be read as a record; 0 if they tell none."""
    from pydantic_core import from_json

    try:
        value = from_json(data)
    except ValueError:
        return 0
    version = value.get("version") if isinstance(value, dict) else None
    return version if isinstance(version, int) else 0


def _first_line(error: ValueError) -> str:
    """What is wrong, short and without the record's content: it may hold secrets of the pod."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    details = error.errors(include_url=False, include_context=False, include_input=False)
    where = ".".join(str(part) for part in details[0]["loc"])
    return f"{where or 'record'}: {details[0]['msg']}" + (f" (and {len(details) - 1} more)" if details[1:] else "")
