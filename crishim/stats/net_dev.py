"""The network interfaces of a pod, from /proc/PID/net/dev of its sandbox's process."""

from __future__ import annotations

from crishim.stats.files import Kept
from crishim.stats.values import Interface, Network

_DEFAULT = "eth0"
"""The name that CNI demands of a pod's interface."""
_LOOPBACK = "lo"


def read_network(files: Kept, path: str, time: int) -> Network | None:
    """The interfaces but for the loopback; None where there is no other.

    Kept open, the file tells of the namespace that the process was in when it was opened, whoever has its pid later.
    """
    return make_network(files.understand_list(path, parse_net_dev), time)


def make_network(interfaces: list[Interface], time: int) -> Network | None:
    """With the default one in its place: eth0, else the first; None without any."""
    if not interfaces:
        return None
    default = next((i for i in interfaces if i.name == _DEFAULT), interfaces[0])
    return Network(time, default, tuple(i for i in interfaces if i is not default))


def parse_net_dev(text: bytes) -> list[Interface]:
    """All interfaces but the loopback, in the kernel's order."""
    interfaces = []
    for line in text.splitlines()[2:]:
        # A name may hold a colon (an alias), a counter never does.
        name, _, counters = line.decode(errors="replace").rpartition(":")
        n = [int(word) for word in counters.split()]
        if (name := name.strip()) != _LOOPBACK:
            interfaces.append(Interface(name, n[0], n[1], n[2], n[3], n[8], n[9], n[10], n[11]))
    return interfaces
