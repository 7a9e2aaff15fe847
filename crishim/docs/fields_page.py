"""docs/fields.md, made from the table in `crishim.docs.fields`.

`python -m crishim.docs.fields_page > docs/fields.md` writes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from crishim.docs.fields import FIELDS, FRONT, MESSAGES, Field
from crishim.engine.features import FIRST_API, Feature, needs

ENGINES = (("20.10", (1, 41)), ("26", (1, 45)), ("28", (1, 51)))
"""The engines of the columns: release, and the newest API version that it speaks."""

HEAD = """\
<!-- Made by `python -m crishim.docs.fields_page` from crishim/docs/fields.py; do not edit. -->
# Every field, and what becomes of it

Each field of a pod's and a container's configuration and of the updates is in force (**yes**), or it is refused by name
and nothing is made (**no**), depending on the engine or the **node** where that says so. **front**: in force where the
runtime of the pod's handler has a front (`crishim install-runtime`), refused by name where it has none. **kept**: by
CRI it changes nothing here; it is remembered and told. A path stands for all that is below it. Values that CRI does not
allow are INVALID_ARGUMENT with the field's path; what engine or node cannot do has the code and the error that stand
here.

The test that reads a field back, from the kernel and inside a container, is named in crishim/docs/fields.py.
"""


def page(fields: Sequence[Field] = FIELDS) -> str:
    """The whole page in Markdown."""
    parts = [HEAD]
    for message in MESSAGES:
        parts.append(f"\n## {message}\n\n")
        parts.append(_row("field", *(release for release, _ in ENGINES), "how, or why not"))
        parts.append(_row(*("---" for _ in range(len(ENGINES) + 2))))
        for field in fields:
            name, _, path = field.path.partition(".")
            if name == message:
                parts.append(_row(f"`{path}`", *(cell(field, api) for _, api in ENGINES), _words(field)))
    return "".join(parts)


def cell(field: Field, api: tuple[int, int]) -> str:
    """What becomes of a field on an engine of this API version."""
    if field.kept:
        return "kept"
    lacking = "front" if field.front else "no"
    if field.needs is None:
        return lacking if field.error is not None else "yes"
    if not isinstance(field.needs, Feature):
        return "node"
    if api < FIRST_API[field.needs]:
        return lacking
    return "where switched on" if field.needs is Feature.CDI_DEVICES else "yes"


def _words(field: Field) -> str:
    words = [field.note] if field.note else []
    front = f"the runtime's front{'' if field.front in ('', FRONT) else f' with {field.front}'}"
    if isinstance(field.needs, Feature):
        words.append(f"needs {needs(field.needs)}{f', or {front}' if field.front else ''}")
    elif field.front:
        words.append(f"needs {front}")
    elif field.needs is not None:
        words.append(f"needs {field.needs.value}")
    if field.error is not None:
        words.append(
            f"{field.error.kind.name} ({field.error.__name__}){' otherwise' if field.needs or field.front else ''}"
        )
    text = "; ".join(words)
    return text[:1].upper() + text[1:] if text else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
