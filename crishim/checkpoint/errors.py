"""What can go wrong with stored records. CorruptRecord and FutureVersion never leave this room: `load` sets aside."""

# ruff: noqa: N818 - errors are named by what is wrong; a suffix would tell nothing more.

from __future__ import annotations

from crishim.errors import CheckpointFailed


class CheckpointError(Exception):
    """Base of what is wrong with stored bytes or with a store's name; never told to a caller of CRI."""


class CorruptRecord(CheckpointError):
    """The bytes are no record: not JSON, not of the record's shape, or not of the sandbox that the place says."""


class FutureVersion(CheckpointError):
    """The record was written by a newer crishim, with a version that this one does not know."""


class StoreUnavailable(CheckpointFailed):
    """The store cannot be opened or written, is open elsewhere, or is closed. Says which file and why.

    Raised by `open` and by every call that could not be carried out; `crishim.errors.CheckpointFailed` to the outside.
    """


class UnknownStore(CheckpointError):
    """No store of this name is installed; the text lists those that are."""
