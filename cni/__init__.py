"""A CNI runtime library: read network configurations, run plugins, understand their results.

Speaks the Container Network Interface 0.1.0 to 1.1.0 from the runtime's side.  Knows networks, plugins and containers
(a network namespace with an id); knows nothing of pods.  README.md shows how to use it.
"""

from __future__ import annotations

from cni.api import CNI, Attachment
from cni.args import encode_args, parse_args
from cni.cache import AttachmentCache
from cni.conf import NetworkConfList, load_dir, load_file, load_first, parse_conflist
from cni.errors import CNIError
from cni.invoke import ExecInvoker, Invoker
from cni.results import Result, parse_result

__all__ = [
    "CNI",
    "Attachment",
    "AttachmentCache",
    "CNIError",
    "ExecInvoker",
    "Invoker",
    "NetworkConfList",
    "Result",
    "encode_args",
    "load_dir",
    "load_file",
    "load_first",
    "parse_args",
    "parse_conflist",
    "parse_result",
]
