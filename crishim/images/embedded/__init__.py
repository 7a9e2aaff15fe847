"""The sandbox image that is part of the package: the pause program and the archive an engine loads it from.

`pause.ARCH.S` is the source, `pause.ARCH.elf` what `build` makes of it (committed, so that nobody needs an
assembler), `archive` wraps it as an image.  No registry, no engine and no network are known here.
"""

from __future__ import annotations

from crishim.images.embedded.archive import ARCHITECTURES, LABELS, REPOSITORY, EmbeddedImage, make_archive

__all__ = ["ARCHITECTURES", "LABELS", "REPOSITORY", "EmbeddedImage", "make_archive"]
