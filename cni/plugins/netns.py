"""Entering a network namespace with the calling thread, for a moment."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator

from cni.errors import Code
from cni.plugins.api import CallFailed

_CLONE_NEWNET = 0x40000000
_OWN = "/proc/thread-self/ns/net"

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """Give a descriptor of the network namespace at `path`.

    Raises CallFailed: code 3 (unknown container) when there is none, or when it is the one that the calling thread is
    in, for attaching there would take the host's network apart.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CallFailed(
            Code.UNKNOWN_CONTAINER, f"the network namespace {path} cannot be opened: {error.strerror}"
        ) from error
    try:
        here, there = os.stat(_OWN), os.fstat(descriptor)
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
            raise CallFailed(Code.UNKNOWN_CONTAINER, f"{path} is the host's network namespace")
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def entered(descriptor: int, path: str) -> Iterator[None]:
    """Let the calling thread be in the namespace with `descriptor`.  Raises CallFailed when it cannot enter.

    A thread that does not find home is of no use any more: SystemExit ends it.
    """
    home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            reason = "it is no network namespace" if number == errno.EINVAL else os.strerror(number)
            raise CallFailed(Code.UNKNOWN_CONTAINER, f"the network namespace {path} cannot be entered: {reason}")
        try:
            yield
        finally:
            if _libc.setns(home, _CLONE_NEWNET) != 0:
                raise SystemExit(f"no way back from the network namespace {path}")
    finally:
        os.close(home)


def setting(name: str) -> str | None:
    """Return the setting `net/...` in the thread's namespace; None where this kernel has no such."""
    try:
        with open(f"/proc/sys/{name}", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def set_setting(name: str, value: str) -> None:
    """Write a setting if it is another and if this kernel has it.  Raises CallFailed."""
    if setting(name) in (value, None):
        return
    try:
        descriptor = os.open(f"/proc/sys/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        told = f"the setting {name.replace('/', '.')} cannot be made {value}: {error.strerror}"
        raise CallFailed(Code.IO_FAILURE, told) from error
