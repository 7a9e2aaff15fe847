"""What can go wrong with stored records. The first two never leave this room: `load` sets aside."""

from __future__ import annotations


class CheckpointError(Exception):
    """Base of what the checkpoint room raises."""


class CorruptRecord(CheckpointError):
    """The bytes are no record: not JSON, not of the record's shape, or not of the sandbox that the place says."""


class FutureVersion(CheckpointError):
    """The record was written by a newer crishim, with a version that this one does not know."""


class StoreUnavailable(CheckpointError):
    """The store cannot be opened or written, is open elsewhere, or is closed. Says which file and why."""


class UnknownStore(CheckpointError):
    """No store of this name is installed; the text lists those that are."""
