"""docs/configuration.md, made from the model of the configuration.

`python -m crishim.docs.configuration_page > docs/configuration.md` writes it anew.
"""

from __future__ import annotations

import inspect
import sys

from crishim.config import Settings
from crishim.config.printed import to_toml
from crishim.config.sources import DEFAULT_FILE, env_name, flag_name

HEAD = f"""\
<!-- Made by `python -m crishim.docs.configuration_page` from crishim/config/settings.py; do not edit. -->
# Configuration

Every setting has a key in the file (TOML), a variable of the environment, and a flag of `crishim serve`; a later one of
these wins. The file is {DEFAULT_FILE}, which need not exist, or the one that `--config` or `CRISHIM_CONFIG`
names, which must. `DOCKER_HOST` counts for `engine` where nothing else sets it.

A key or value that is not allowed, in any of the sources, is told with its source and with what is allowed; all of them
at once, and then crishim ends with exit status 2. `crishim serve --print-config` shows what is in force and where each
value is from.

Sizes are bytes and may have a suffix (`16MiB`, `1GB`); times are seconds; lists of folders in a flag or variable are
separated by colons.
"""


def page() -> str:
    """The whole page in Markdown."""
    parts = [HEAD]
    for key, field in Settings.model_fields.items():
        default = "none" if field.default is None else f"`{to_toml(field.default)}`"
        parts.append(
            f"## {key}\n\n{inspect.cleandoc(field.description or '')}\n\n"
            f"`{flag_name(key)}` · `{env_name(key)}` · default {default}\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
