"""Running one plugin: find it, run it, and see it ended whatever happens (CNI 1.1.0, section 2).

`Invoker` is the seam: `ExecInvoker` runs executables; an in-process plugin or a test's fake takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import BinaryIO, TypeVar

from cni import jsontext
from cni.errors import InvocationFailed, PluginCrashed, PluginError, PluginNotFound, PluginTimeout

_T = TypeVar("_T")
_STDOUT_AT_MOST = 4 << 20
_STDERR_KEPT = 16 << 10
_TERMINATION_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_DEATH_LIMIT = 10.0  # seconds after SIGKILL: one in uninterruptible sleep (a dead NFS server) may never end
_PIPES_GRACE = 1.0  # seconds for the last output when a child of the plugin's holds the pipes open
_BUSY_PAUSE = 0.05  # seconds between tries while somebody still writes the executable
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Invoker(ABC):
    """Runs plugins by name."""

    @abstractmethod
    def find(self, plugin: str) -> str:
        """Return where `plugin` is.  Raises PluginNotFound.  Cheap (a few stats)."""

    @abstractmethod
    async def invoke(self, plugin: str, environment: Mapping[str, str], stdin: bytes, timeout: float) -> bytes:
        """Run `plugin` with the CNI_* variables in `environment`; return what it printed.

        `timeout`: seconds.  Raises PluginNotFound, or InvocationFailed: PluginError (it reported one), PluginCrashed,
        PluginTimeout.  When this returns or raises, cancellation included, the plugin has ended; only one in
        uninterruptible sleep is left to the kernel, which ends it when it wakes up.
        """


class ExecInvoker(Invoker):
    """Runs executables from the folders for plugins, each in a process group of its own."""

    def __init__(self, bin_dirs: Sequence[str], search_path: str | None = None) -> None:
        """`bin_dirs`: where plugins are, in order.  `search_path`: their PATH, for iptables and such; None: ours."""
        self._bin_dirs = tuple(os.path.abspath(folder) for folder in bin_dirs)
        self._search_path = search_path or os.environ.get("PATH") or _DEFAULT_PATH

    def __repr__(self) -> str:
        return f"ExecInvoker({':'.join(self._bin_dirs)})"

    def find(self, plugin: str) -> str:
        if not plugin or plugin in (".", "..") or "/" in plugin or "\0" in plugin:
            raise PluginNotFound(plugin, "a plugin is named by a file name, without a folder")
        for folder in self._bin_dirs:
            path = os.path.join(folder, plugin)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        raise PluginNotFound(plugin, f"no executable of this name in {':'.join(self._bin_dirs) or 'no folder at all'}")

    async def invoke(self, plugin: str, environment: Mapping[str, str], stdin: bytes, timeout: float) -> bytes:
        path = self.find(plugin)
        verb = environment["CNI_COMMAND"]
        process: _Process | None = None
        variables = {"CNI_PATH": ":".join(self._bin_dirs), **environment, "PATH": self._search_path}
        try:
            async with asyncio.timeout(timeout):
                process = await _start(path, variables, stdin)
                try:
                    status = await process.wait()
                except BaseException:
                    await _uncancelled(process.end())
                    raise
        except TimeoutError as error:
            held = process.held if process is not None else ""
            raise PluginTimeout(plugin, verb, f"no answer within {timeout:g} s{held}") from error
        except OSError as error:
            raise InvocationFailed(plugin, verb, f"{path} cannot be run: {error.strerror}") from error
        if status != 0:
            raise _failure(plugin, verb, status, process)
        if process.flooded:
            raise PluginCrashed(plugin, verb, f"it printed more than {_STDOUT_AT_MOST} bytes")
        return bytes(process.stdout)


async def _start(path: str, variables: Mapping[str, str], stdin: bytes) -> _Process:
    """Start the executable.  Cancelled meanwhile: it is ended before the cancellation is passed on."""
    loop = asyncio.get_running_loop()
    with _as_file(stdin) as source:
        while True:
            try:
                starting = asyncio.ensure_future(
                    loop.subprocess_exec(
                        _Process, path, stdin=source, env=dict(variables), cwd="/", start_new_session=True
                    )
                )
                try:
                    _, process = await asyncio.shield(starting)
                except asyncio.CancelledError:
                    with contextlib.suppress(OSError):
                        _, process = await _uncancelled(starting)
                        await _uncancelled(process.end())
                    raise
            except OSError as error:
                if error.errno != errno.ETXTBSY:  # an installer is still writing it
                    raise
                await asyncio.sleep(_BUSY_PAUSE)
            else:
                return process


def _as_file(content: bytes) -> BinaryIO:
    """Return a file in memory to be a plugin's stdin.

    A pipe would have to be fed while the plugin reads, or does not; and what asyncio makes for a pipe is a socket,
    which a plugin written for the shell cannot open as /dev/stdin.
    """
    file = open(os.memfd_create("cni-config", os.MFD_CLOEXEC), "w+b", buffering=0)  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.seek(0)
    return file


class _Process(asyncio.SubprocessProtocol):
    """One running plugin: collects its output within bounds and knows when it has ended."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.flooded = False
        self.held = ""
        """For a message: that not even SIGKILL ended it."""
        self._exited: asyncio.Future[None] = loop.create_future()
        self._drained: asyncio.Future[None] = loop.create_future()
        self._open_pipes = {1, 2}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr += data
            del self.stderr[:-_STDERR_KEPT]  # the end says why
        elif not self.flooded:
            self.stdout += data
            if len(self.stdout) > _STDOUT_AT_MOST:
                self.flooded = True
                self.stdout.clear()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_pipes.discard(fd)
        if not self._open_pipes and not self._drained.done():
            self._drained.set_result(None)

    def process_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)

    async def wait(self) -> int:
        """Wait for the end and return the exit status (negative: the signal)."""
        await asyncio.shield(self._exited)
        await asyncio.wait([self._drained], timeout=_PIPES_GRACE)
        self._transport.close()
        status = self._transport.get_returncode()
        assert status is not None
        return status

    async def end(self) -> None:
        """End the process and its group: asked first, then forced; return when it is gone.

        One that the kernel does not let go is given up after `_DEATH_LIMIT`: it ends as soon as it wakes up.
        """
        self._signal(signal.SIGTERM)
        await asyncio.wait([self._exited], timeout=_TERMINATION_GRACE)
        self._signal(signal.SIGKILL)  # also those of its group that outlived it
        await asyncio.wait([self._exited], timeout=_DEATH_LIMIT)
        if not self._exited.done():
            pid = self._transport.get_pid()
            self.held = f", and process {pid} does not end: it waits in the kernel, for a device or a file server"
        self._transport.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._transport.get_pid(), number)


async def _uncancelled(awaitable: Awaitable[_T]) -> _T:
    """Await to the end although we are (or get) cancelled; a cancellation that comes meanwhile is dropped.

    Only for use while an exception is on its way out.
    """
    task = asyncio.ensure_future(awaitable)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


def _failure(plugin: str, verb: str, status: int, process: _Process) -> PluginError | PluginCrashed:
    """Make the error for a plugin that ended with `status`: its own error object, or what is known instead."""
    try:
        said = jsontext.loads(bytes(process.stdout))
    except ValueError:
        said = None
    if isinstance(said, dict) and isinstance(said.get("code"), int):
        return PluginError(plugin, verb, said["code"], str(said.get("msg", "")), str(said.get("details") or ""))
    how = f"exit status {status}" if status > 0 else f"ended by {_signal_name(-status)}"
    last = bytes(process.stderr).decode(errors="replace").strip() or bytes(process.stdout[:500]).decode(
        errors="replace"
    )
    return PluginCrashed(plugin, verb, f"{how}: {last}" if last else how)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
