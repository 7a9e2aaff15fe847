"""Who holds the pods' network namespaces: the kernel by way of pins, or, without any, a book kept in memory.

The verbs speak to `NetworkNamespaces` only, so that a simulated engine (whose sandboxes are no processes) and the real
one take the same steps.
"""

from __future__ import annotations

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from crishim.errors import NetnsError, PortForwardFailed
from crishim.network import held, netns
from crishim.network.addresses import read_addresses
from crishim.network.dial import dial_loopback
from crishim.network.held import Kind, Wanted


class NetworkNamespaces(ABC):
    """Holds one network namespace per sandbox. All methods are idempotent unless said otherwise."""

    @abstractmethod
    async def start(self) -> None:
        """Make the folder of the pins ready. Raises NetnsError when pins would not be seen by the host."""

    @abstractmethod
    def path(self, sandbox_id: str) -> str:
        """Where the namespace of this sandbox is, or will be, pinned. Changes nothing."""

    @abstractmethod
    async def pin(self, sandbox_id: str, pid: int) -> None:
        """Hold the namespace of process `pid` for the sandbox. Raises NetnsError."""

    @abstractmethod
    async def furnish(
        self, sandbox_id: str, pid: int, sysctls: Mapping[str, str], resolv_conf: tuple[str, str] | None
    ) -> bool:
        """`pin`, then `write_resolv_conf` (path and text) and `prepare`, in one go.

        False, and no more than `pin`, where process `pid` cannot be told from a stranger that was given its number.
        """

    @abstractmethod
    async def make(self, sandbox_id: str, wanted: Wanted) -> None:
        """Make namespaces and files of a sandbox that has no process, and hold them. Raises NetnsError; nothing is left
        then. Not idempotent: of a sandbox's that are held already NetnsError is raised, too."""

    @abstractmethod
    async def holds(self, sandbox_id: str, kinds: frozenset[Kind]) -> bool:
        """Whether all that `make` made is held. Raises NetnsError."""

    @abstractmethod
    def folder(self, sandbox_id: str) -> str:
        """Where what `make` makes lies, but for the network namespace: files by their names, `ipc`, `uts` and `shm`.
        Changes nothing."""

    @abstractmethod
    def strangers(self, sandbox_id: str, kinds: frozenset[Kind], pid: int, host: str = "self") -> tuple[Kind, ...]:
        """The kinds in which process `pid` does not live where a process of the sandbox's is to live; none for one that
        has ended. What the sandbox shares with the host is that of process `host`: the engine's, for we may live in
        namespaces of our own. Looks at a few files of procfs. Raises NetnsError."""

    @abstractmethod
    async def held_addresses(self, sandbox_id: str) -> tuple[str, ...]:
        """The same as `addresses`, of the namespace that is held for the sandbox; none where none is."""

    @abstractmethod
    async def unpin(self, sandbox_id: str) -> None:
        """Let go all that is held of it; what is not held is no error. Raises NetnsError."""

    @abstractmethod
    def pinned(self, sandbox_id: str) -> bool:
        """Whether the namespace is held."""

    @abstractmethod
    async def pins(self) -> Sequence[str]:
        """Ids of all sandboxes whose namespace is held, or whose pin was left half made."""

    @abstractmethod
    async def inhabited(self, sandbox_id: str) -> bool:
        """Whether a process lives in the namespace that is held for the sandbox; False where none is held."""

    @abstractmethod
    async def addresses(self, pid: int) -> tuple[str, ...]:
        """Addresses of the namespace of a sandbox's process, IPv4 first; none if it has only a loopback, or has ended.

        For pods that were attached by somebody else, or whose record was lost.
        """

    @abstractmethod
    async def prepare(self, sandbox_id: str, sysctls: Mapping[str, str]) -> None:
        """Switch IPv6 on where the engine switched it off, then apply the pod's own net.* settings."""

    @abstractmethod
    async def connect(self, path: str, port: int) -> socket.socket:
        """A connected, non-blocking TCP socket to 127.0.0.1:port, else [::1]:port, in the namespace at `path`.

        `path`: what `path` says, or `/proc/PID/ns/net`. Raises PortForwardFailed with the reasons, or NetnsError.
        """

    @abstractmethod
    async def write_resolv_conf(self, path: str, text: str) -> None:
        """Rewrite the engine's resolv.conf of a sandbox in place: containers have that very file mounted."""


class KernelNamespaces(NetworkNamespaces):
    """Pins in a folder (`/run/netns`), named `crishim-<sandbox id>`; what else `make` makes in a folder per sandbox."""

    def __init__(self, directory: str, folders: str = "") -> None:
        """`folders`: where the sandboxes' folders lie; empty: sandboxes always have a process."""
        self._directory = directory
        self._folders = folders

    def __repr__(self) -> str:
        return f"KernelNamespaces({self._directory!r})"

    async def start(self) -> None:
        await asyncio.to_thread(netns.make_shared, self._directory)

    def path(self, sandbox_id: str) -> str:
        return netns.pin_path(self._directory, sandbox_id)

    async def pin(self, sandbox_id: str, pid: int) -> None:
        await netns.pin(pid, self.path(sandbox_id))

    async def furnish(
        self, sandbox_id: str, pid: int, sysctls: Mapping[str, str], resolv_conf: tuple[str, str] | None
    ) -> bool:
        def write() -> None:
            if resolv_conf is not None:
                _rewrite(*resolv_conf)

        return await netns.furnish(pid, self.path(sandbox_id), sandbox_id, sysctls, write)

    async def make(self, sandbox_id: str, wanted: Wanted) -> None:
        path, folder = self.path(sandbox_id), self.folder(sandbox_id)
        await netns.in_thread(lambda: held.make_sync(path, folder, wanted), "make")

    async def holds(self, sandbox_id: str, kinds: frozenset[Kind]) -> bool:
        return await asyncio.to_thread(held.holds_sync, self.path(sandbox_id), self.folder(sandbox_id), kinds)

    def folder(self, sandbox_id: str) -> str:
        netns.pin_path(self._directory, sandbox_id)  # an id that is no file name is refused there
        return os.path.join(self._folders, sandbox_id)

    def strangers(self, sandbox_id: str, kinds: frozenset[Kind], pid: int, host: str = "self") -> tuple[Kind, ...]:
        return held.strangers_sync(pid, self.path(sandbox_id), self.folder(sandbox_id), kinds, host)

    async def held_addresses(self, sandbox_id: str) -> tuple[str, ...]:
        if not self.pinned(sandbox_id):
            return ()
        return await netns.in_netns(self.path(sandbox_id), lambda: read_addresses("thread-self"))

    async def unpin(self, sandbox_id: str) -> None:
        path, folder = self.path(sandbox_id), self.folder(sandbox_id)
        if self._folders:
            await netns.in_thread(lambda: held.unmake_sync(path, folder), "unpin")
        else:
            await netns.unpin(path)

    def pinned(self, sandbox_id: str) -> bool:
        return netns.is_pinned(self.path(sandbox_id))

    async def pins(self) -> Sequence[str]:
        paths = await asyncio.to_thread(netns.list_pins, self._directory)
        ids = [os.path.basename(path).removeprefix(netns.PREFIX) for path in paths]
        folders = await asyncio.to_thread(held.list_folders, self._folders) if self._folders else ()
        return list(dict.fromkeys((*ids, *folders)))

    async def inhabited(self, sandbox_id: str) -> bool:
        return await asyncio.to_thread(netns.is_inhabited, self.path(sandbox_id))

    async def addresses(self, pid: int) -> tuple[str, ...]:
        return await asyncio.to_thread(read_addresses, pid)

    async def prepare(self, sandbox_id: str, sysctls: Mapping[str, str]) -> None:
        await netns.enable_ipv6(self.path(sandbox_id), sysctls)

    async def connect(self, path: str, port: int) -> socket.socket:
        return await dial_loopback(path, port)

    async def write_resolv_conf(self, path: str, text: str) -> None:
        await asyncio.to_thread(_rewrite, path, text)


def _rewrite(path: str, text: str) -> None:
    """Replace the content, not the file: whoever has it mounted sees the new text.

    Not emptied first: ext4 takes that for a file that is being replaced, and its close waits for the disk.
    """
    data = text.encode()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.truncate()
    except OSError as error:
        raise NetnsError(f"{path} cannot be rewritten: {error.strerror}", path=path) from error


class SimulatedNamespaces(NetworkNamespaces):
    """For engines without processes, and for tests: remembers what it was told, touches nothing."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        """Sandbox to its process; 0: it has none."""
        self.made: dict[str, Wanted] = {}
        self.astray: dict[int, tuple[Kind, ...]] = {}
        """What `strangers` answers, by process."""
        self.sysctls: dict[str, Mapping[str, str]] = {}
        self.resolv_conf: dict[str, str] = {}
        self.ips: dict[int, tuple[str, ...]] = {}
        """What `addresses` answers, by process."""
        self.recognizes = True
        """Whether processes can be told from strangers with their number."""
        self.listeners: dict[tuple[str, int], int] = {}
        """Namespace and port to the port of this machine's 127.0.0.1 that `connect` goes to instead."""

    async def start(self) -> None:
        return

    def path(self, sandbox_id: str) -> str:
        return f"simulated:{sandbox_id}"

    async def pin(self, sandbox_id: str, pid: int) -> None:
        await asyncio.sleep(0)
        if not pid:
            raise NetnsError("a sandbox that does not run has no network namespace", sandbox=sandbox_id)
        self.held[sandbox_id] = pid

    async def furnish(
        self, sandbox_id: str, pid: int, sysctls: Mapping[str, str], resolv_conf: tuple[str, str] | None
    ) -> bool:
        await self.pin(sandbox_id, pid)
        if not self.recognizes:
            return False
        if resolv_conf is not None:
            await self.write_resolv_conf(*resolv_conf)
        await self.prepare(sandbox_id, sysctls)
        return True

    async def make(self, sandbox_id: str, wanted: Wanted) -> None:
        await asyncio.sleep(0)
        if sandbox_id in self.held:
            raise NetnsError("the sandbox's namespaces are there already", sandbox=sandbox_id)
        self.held[sandbox_id] = 0
        self.made[sandbox_id] = wanted
        self.sysctls[sandbox_id] = dict(wanted.sysctls)

    async def holds(self, sandbox_id: str, kinds: frozenset[Kind]) -> bool:
        await asyncio.sleep(0)
        return sandbox_id in self.held and sandbox_id in self.made and kinds <= self.made[sandbox_id].kinds

    def folder(self, sandbox_id: str) -> str:
        return f"simulated:{sandbox_id}/folder"

    def strangers(self, sandbox_id: str, kinds: frozenset[Kind], pid: int, host: str = "self") -> tuple[Kind, ...]:
        return self.astray.get(pid, ())

    async def held_addresses(self, sandbox_id: str) -> tuple[str, ...]:
        await asyncio.sleep(0)
        return self.ips.get(self.held[sandbox_id], ()) if sandbox_id in self.held else ()

    async def unpin(self, sandbox_id: str) -> None:
        await asyncio.sleep(0)
        self.held.pop(sandbox_id, None)
        self.made.pop(sandbox_id, None)
        self.sysctls.pop(sandbox_id, None)

    def pinned(self, sandbox_id: str) -> bool:
        return sandbox_id in self.held

    async def pins(self) -> Sequence[str]:
        return list(self.held)

    async def inhabited(self, sandbox_id: str) -> bool:
        await asyncio.sleep(0)
        return False

    async def addresses(self, pid: int) -> tuple[str, ...]:
        await asyncio.sleep(0)
        return self.ips.get(pid, ())

    async def prepare(self, sandbox_id: str, sysctls: Mapping[str, str]) -> None:
        await asyncio.sleep(0)
        self.sysctls[sandbox_id] = dict(sysctls)

    async def connect(self, path: str, port: int) -> socket.socket:
        await asyncio.sleep(0)
        if (path, port) not in self.listeners:
            raise PortForwardFailed(f"nothing accepts connections on port {port} of a simulated pod")
        made = socket.socket()
        try:
            made.setblocking(False)
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.listeners[path, port]))
        except BaseException:
            made.close()
            raise
        return made

    async def write_resolv_conf(self, path: str, text: str) -> None:
        await asyncio.sleep(0)
        self.resolv_conf[path] = text
