"""The images that critest's specs use, made on the spot: the same names, programs and users, not the same bytes.

What each must hold is read from cri-tools' pkg/validate and pkg/benchmark (the specs) and images/ (what upstream
builds).  Busybox comes from Debian's packages, its applets as hard links: a spec masks /bin/ls, and a mask on a link
would cover all of busybox.
"""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from crishim.images.embedded import elf
from tests.env.cache import unpacked
from tests.env.images import PATH, File, Image, busybox, folder, libraries, make_image, sha256
from tests.env.registry import make_manifest

PROGRAMS = Path(__file__).with_name("programs")
K8S = "registry.k8s.io"
OLD_K8S = "k8s.gcr.io"
GCR = "gcr.io"
ECR = "public.ecr.aws"
NAMES = (K8S, OLD_K8S, GCR, ECR)
"""The registries that specs pull from."""
_E2E = f"{K8S}/e2e-test-images"
_STAGING = f"{GCR}/k8s-staging-cri-tools"
_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
_LISTED = ("1.35.0-glibc", "1-uclibc", "1", "1-glibc", "1-musl")
"""Tags that the image benchmark pulls, lists and removes."""


@dataclass(frozen=True)
class DigestImage:
    """The image that a spec pulls by digest; the digest is built into critest (``tools``)."""

    repository: str
    image: Image

    @property
    def digest(self) -> str:
        """The manifest's, as the registry will serve it."""
        return sha256(make_manifest(self.image))


DIGEST_IMAGE = DigestImage(
    f"{_STAGING}/test-image-digest",
    make_image({"Cmd": ["sh"], "Env": [PATH]}, [File("test-image-digest", b"digest\n")]),
)


def all_images() -> Mapping[str, Image]:
    """Every image by its full reference ``registry/repository:tag``.

    Raises RuntimeError when a package or the compiler is missing.
    """
    plain = _busybox()
    same, paused = _marked(plain, "test-image-tags"), _pause()
    found: dict[str, Image] = {
        f"{_E2E}/busybox:1.29-2": plain,
        f"{_E2E}/nginx:1.14-2": _nginx("80"),
        f"{_E2E}/httpd:2.4.39-4": _httpd(),
        f"{_E2E}/nonewprivs:1.3": _nonewprivs(),
        f"{_STAGING}/hostnet-nginx-{_ARCH}:latest": _nginx("127.0.0.1:12003"),
        f"{K8S}/pause:3.9": paused,
        f"{OLD_K8S}/pause:3.9": paused,
        f"{_STAGING}/test-image-predefined-group:latest": _predefined_group(),
        f"{DIGEST_IMAGE.repository}:latest": DIGEST_IMAGE.image,
    }
    users = {"uid": "1002", "username": "www-data", "uid-group": "1003:1004", "username-group": "www-data:1004"}
    for name, user in users.items():
        found[f"{_STAGING}/test-image-user-{name}:latest"] = plain.with_config(User=user)
    for name in ("1:latest", "2:latest", "3:latest", "latest:latest", "tag:test", "tag:all"):
        found[f"{_STAGING}/test-image-{name}"] = _marked(plain, f"test-image-{name.replace(':', '-')}")
    found |= {f"{_STAGING}/test-image-tags:{tag}": same for tag in "123"}
    found |= {f"{ECR}/docker/library/busybox:{tag}": _marked(plain, f"listed-{tag}") for tag in _LISTED}
    return found


def _marked(image: Image, name: str) -> Image:
    """The image with a file of this name: another image id."""
    return image.with_files(File(name, f"{name}\n".encode()))


@cache
def _busybox() -> Image:
    """``tests.env``'s busybox with hard links, and with scripts for two programs that Debian's lacks."""
    base = busybox()
    layer = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(base.layers[0])) as old, tarfile.open(fileobj=layer, mode="w") as new:
        for entry in old:
            if entry.issym() and entry.linkname == "/bin/busybox":
                entry.type, entry.linkname, entry.mode = tarfile.LNKTYPE, "bin/busybox", 0o755
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    scripts = [File(f"bin/{name}", (PROGRAMS / name).read_bytes(), 0o755) for name in ("pgrep", "ipcs")]
    return Image(base.config, (layer.getvalue(),)).with_files(*scripts)


def _nginx(listen: str) -> Image:
    """Debian's nginx on busybox."""
    program = unpacked("nginx") / "usr/sbin/nginx"
    configuration = (PROGRAMS / "nginx.conf").read_text().replace("@LISTEN@", listen)
    folders = ("usr/share", "usr/share/nginx", "usr/share/nginx/html", "etc/nginx", "var/run", "var/log")
    image = _busybox().with_files(
        *map(folder, (*folders, "var/log/nginx", "var/lib", "var/lib/nginx")),
        File("etc/nginx/nginx.conf", configuration.encode()),
        File("usr/share/nginx/html/index.html", b"<html><body><h1>Welcome to nginx!</h1></body></html>\n"),
        *libraries(program),
        File("usr/sbin/nginx", program.read_bytes(), 0o755),
    )
    return image.with_config(Cmd=["nginx", "-g", "daemon off;"], ExposedPorts={"80/tcp": {}})


def _httpd() -> Image:
    """Busybox's httpd; specs look for ``httpd`` in the log and for an answer on port 80."""
    page = File("www/index.html", b"<html><body><h1>It works!</h1></body></html>\n")
    script = "echo httpd -DFOREGROUND; exec httpd -f -p 80 -h /www"
    return _busybox().with_files(folder("www"), page).with_config(Cmd=["sh", "-c", script])


def _pause() -> Image:
    """A pause image of its own id: specs remove it, and must not take a sandbox image along."""
    program = Path(elf.__file__).with_name(f"pause.{_ARCH}.elf").read_bytes()
    config: dict[str, Any] = {"Entrypoint": ["/pause"], "User": "65535:65535", "Env": [PATH], "Labels": {"tag": "3.9"}}
    return make_image(config, [File("pause", program, 0o755)])


def _predefined_group() -> Image:
    """An image whose /etc/group gives its user, uid 1000, one more group."""
    passwd = "root:x:0:0:root:/root:/bin/sh\ndefault-user:x:1000:1000::/home/default-user:/bin/sh\n"
    group = "root:x:0:\ndefault-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n"
    files = (File("etc/passwd", passwd.encode()), File("etc/group", group.encode()))
    return _busybox().with_files(*files, folder("home/default-user", uid=1000, gid=1000)).with_config(User="1000")


def _nonewprivs() -> Image:
    """A set-user-id program that tells its effective user id."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("gcc is missing: run tests/env/bootstrap.sh packages")
    with tempfile.TemporaryDirectory() as place:
        target = Path(place, "nonewprivs")
        command = [
            compiler,
            "-Os",
            "-s",
            "-static",
            "-Wall",
            "-Werror",
            "-o",
            str(target),
            str(PROGRAMS / "nonewprivs.c"),
        ]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise RuntimeError(f"cannot compile nonewprivs.c: {made.stderr.strip()}")
        program = target.read_bytes()
    return make_image({"Entrypoint": ["/nnp"], "Env": [PATH]}, [File("nnp", program, 0o4755)])
