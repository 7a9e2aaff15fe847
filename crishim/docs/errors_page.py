"""docs/errors.md, made from the docstrings of `crishim.errors`.

`python -m crishim.docs.errors_page > docs/errors.md` writes it anew.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

from crishim import errors
from crishim.errors import CRIError

ADVICE = "Caller: "

HEAD = """\
<!-- Made by `python -m crishim.docs.errors_page` from crishim/errors.py; do not edit. -->
# Errors

What a caller of CRI can be told, by the gRPC code of the answer. The message is for people and may change, but for the
beginnings shown here, which a kubelet looks for. Identifiers of the objects concerned are in crishim's log, beside the
whole message: on the wire it is cut at 2 KB.

Anything else that goes wrong inside crishim is answered INTERNAL with a short text; the log has the traceback.
"""


def leaves() -> Iterator[type[CRIError]]:
    """The errors that are raised, in the order of their source."""
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, CRIError) and value is not CRIError:
            yield value


def advice(leaf: type[CRIError]) -> tuple[str, str]:
    """When `leaf` is raised, and what its caller can do; ValueError where the docstring does not tell both."""
    when, found, what = inspect.cleandoc(leaf.__doc__ or "").partition(f"\n\n{ADVICE}")
    if not (when and found and what):
        raise ValueError(f"the docstring of {leaf.__name__} must say when, and then 'Caller: ' and what to do")
    return when, what[0].upper() + what[1:]


def page() -> str:
    """The whole page in Markdown."""
    parts = [HEAD]
    by_kind = {kind: [leaf for leaf in leaves() if leaf.kind is kind] for kind in errors.Kind}
    for kind, group in by_kind.items():
        if not group:
            continue
        parts.append(f"## {kind.value}\n")
        for leaf in group:
            when, what = advice(leaf)
            beginning = f"The message begins `{leaf.prefix.rstrip()}`\n\n" if leaf.prefix else ""
            parts.append(f"### {leaf.__name__}\n\n{when}\n\n{beginning}**What to do:** {what}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
