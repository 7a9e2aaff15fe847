"""Programs out of other Debian suites, unpacked beside the system's own: nothing is installed, no state of apt changed.

apt downloads a closure of packages with a state of its own that knows no installed package, ``dpkg -x`` unpacks them,
and patchelf points each wanted program at the dynamic loader and the libraries that came with it.  Needs root (apt),
apt-get, dpkg and patchelf.  Rules: apt.conf(5) for the folders; ld.so(8): a DT_RPATH, unlike a DT_RUNPATH, also serves
the libraries that libraries need.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path("/etc/apt")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DEFAULT_MIRROR = "http://deb.debian.org/debian"
"""Asked where the system names no Debian mirror of its own (Ubuntu)."""


class DebianError(Exception):
    """A suite's packages cannot be had or used here; the message says what to do or ends on the program's words."""


def mirror(sources: Path = SOURCES) -> str:
    """The system's first Debian mirror, security archives aside (deb822 or one-line format, sources.list(5))."""
    files = [*sorted(sources.glob("sources.list.d/*.sources")), sources / "sources.list"]
    files += sorted(sources.glob("sources.list.d/*.list"))
    pattern = re.compile(r"^(?:URIs:|deb(?:\s+\[[^]]*\])?)\s+(\S+/debian)/?(?:\s|$)", re.MULTILINE)
    for file in files:
        if file.exists() and (found := pattern.search(file.read_text())):
            return found.group(1)
    return DEFAULT_MIRROR


@dataclass(frozen=True)
class Suite:
    """A Debian suite by name, and a folder for apt's state of it."""

    name: str
    state: Path

    def download(self, packages: Sequence[str], optional: Sequence[str] = ()) -> list[Path]:
        """Download packages with all that they need; ``optional``: those that only some suites have.

        Returns the package files, which lie below ``state``.  Raises DebianError.
        """
        if not KEYRING.exists():
            raise DebianError(f"{KEYRING} is missing: install debian-archive-keyring")
        for name in ("lists/partial", "archives/partial"):
            (self.state / name).mkdir(parents=True, exist_ok=True)
        (self.state / "status").touch()
        (self.state / "sources").write_text(f"deb [signed-by={KEYRING}] {mirror()} {self.name} main\n")
        self._apt("apt-get", "update")
        known = [name for name in optional if self._knows(name)]
        self._apt("apt-get", "install", "--yes", "--no-install-recommends", "--download-only", *packages, *known)
        return sorted((self.state / "archives").glob("*.deb"))

    def _knows(self, package: str) -> bool:
        command = ["apt-cache", *self._options(), "show", package]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _apt(self, program: str, *arguments: str) -> None:
        run([program, *self._options(), *arguments])

    def _options(self) -> list[str]:
        settings = {
            "Dir::Etc::SourceList": self.state / "sources",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State": self.state,
            "Dir::State::Lists": self.state / "lists",
            "Dir::State::status": self.state / "status",
            "Dir::State::extended_states": self.state / "extended",
            "Dir::Cache": self.state,
            "Dir::Cache::archives": self.state / "archives",
            "APT::Sandbox::User": "root",
            "APT::Default-Release": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        return [f"-o{name}={value}" for name, value in settings.items()]


def run(command: Sequence[str | Path]) -> str:
    """Run a program quietly and return its output.  Raises DebianError with the end of its words if it fails."""
    environment = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except FileNotFoundError:
        raise DebianError(f"{command[0]} is missing") from None
    if done.returncode != 0:
        raise DebianError(f"{Path(command[0]).name} failed: {(done.stdout + done.stderr).strip()[-800:]}")
    return done.stdout


def take_programs(debs: Sequence[Path], names: Sequence[str], target: Path) -> None:
    """Unpack packages and put the programs ``names``, made to run on their own libraries, into ``target/bin``.

    ``target/lib`` keeps the libraries.  Both paths are written into the programs: ``target`` cannot be moved
    afterwards.  Raises DebianError when a program is in none of the packages.
    """
    (target / "bin").mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=target) as place:
        root = Path(place)
        for deb in debs:
            run(["dpkg", "-x", deb, root])
        library_folders = _collect_libraries(root, target / "lib")
        loader = next((target / "lib").rglob("ld-linux-*.so.*"), None)
        if loader is None:
            raise DebianError("the packages hold no dynamic loader")
        for name in names:
            program = target / "bin" / name
            shutil.copy2(_find_program(root, name), program)
            _rebind(program, loader, library_folders)


def _find_program(root: Path, name: str) -> Path:
    for folder in ("bin", "sbin"):
        for top in (root / "usr", root):
            if (found := top / folder / name).is_file():
                return found
    raise DebianError(f"no package holds the program {name}")


def _collect_libraries(root: Path, target: Path) -> list[Path]:
    """Copy the library folders of an unpacked suite, merged (usr-merge or not), and return them as they now lie."""
    for source in (*root.glob("lib/*-linux-gnu*"), *root.glob("usr/lib/*-linux-gnu*")):
        shutil.copytree(source, target / source.name, symlinks=True, dirs_exist_ok=True)
    return sorted(target.iterdir()) if target.is_dir() else []


def _rebind(program: Path, loader: Path, library_folders: Sequence[Path]) -> None:
    """Have a dynamic program use this loader and these libraries; a static one is left as it is."""
    probe = subprocess.run(["patchelf", "--print-interpreter", program], capture_output=True, check=False)
    if probe.returncode == 0:
        search = ":".join(map(str, library_folders))
        run(["patchelf", "--set-interpreter", loader, "--force-rpath", "--set-rpath", search, program])
