"""CNI_ARGS: `KEY=value` pairs joined by semicolons, without any way to escape one."""

from __future__ import annotations

from collections.abc import Mapping

from cni.errors import AttachmentError


def encode_args(args: Mapping[str, str]) -> str:
    """Return the value of CNI_ARGS for `args`, in their order.

    Raises AttachmentError for what would read back as something else: plugins split at every `;` and `=`.
    """
    for key, value in args.items():
        if not key or any(character in key + value for character in ";=\0"):
            raise AttachmentError(f"CNI_ARGS cannot carry {key!r} = {value!r}")
    return ";".join(f"{key}={value}" for key, value in args.items())


def parse_args(text: str) -> dict[str, str]:
    """Return the pairs in a value of CNI_ARGS.  Raises AttachmentError when it is malformed."""
    pairs = [pair.split("=") for pair in text.split(";") if pair]
    if any(len(pair) != 2 or not pair[0] for pair in pairs):
        raise AttachmentError(f"malformed CNI_ARGS {text!r}")
    return {pair[0]: pair[1] for pair in pairs}
