"""Programs of a Go module in the tree, built into the cache once: versions in its go.mod, sums in its go.sum."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import cache
from tests.conformance.tools import ToolsMissingError, go_command, run_go


@dataclass(frozen=True)
class GoPrograms:
    """What a folder's module is built to."""

    what: str
    """For messages, and how its folder in the cache is called."""
    here: Path
    sources: Sequence[str]
    """Files of the folder that the build needs; a change of one builds anew."""
    packages: Mapping[str, str]
    """Name of each program to its package."""
    how: str
    """The command that builds them, for people."""

    def place(self) -> Path:
        """The folder with the programs of these very sources."""
        key = hashlib.sha256()
        for name in self.sources:
            key.update(hashlib.sha256((self.here / name).read_bytes()).digest())
        return cache.folder("tools", f"{self.what.replace(' ', '-')}-{key.hexdigest()[:12]}")

    def folder(self) -> Path:
        """The same.  Raises ToolsMissingError unless all have been built."""
        if self._missing():
            raise ToolsMissingError(f"{self.what}: not built: {self.how}")
        return self.place()

    def make_ready(self) -> None:
        """Build what is not in the cache.  Raises ToolsMissingError when that is not possible here."""
        place = self.place()
        with cache.alone(place):
            missing = self._missing()
            if not missing:
                return
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="build-", dir=place) as temporary:
                work = Path(temporary)
                for name in self.sources:
                    shutil.copy(self.here / name, work)
                print(f"building {self.what}", file=sys.stderr, flush=True)
                for name in missing:
                    draft = work / f"{name}.built"
                    flags = ["-trimpath", "-ldflags=-s -w", "-o", str(draft)]
                    run_go([*go_command(), "build", *flags, self.packages[name]], work)
                    draft.rename(place / name)

    def main(self) -> int:
        """Build them; returns 1 after a line that says why it cannot be done."""
        try:
            self.make_ready()
        except ToolsMissingError as error:
            print(f"{self.what}: {error}", file=sys.stderr)
            return 1
        return 0

    def _missing(self) -> list[str]:
        return [name for name in self.packages if not (self.place() / name).exists()]
