"""The world outside that specs expect: registries under their public names, and a pod network.

All of it is made within a test world, whose network, /etc and /var/lib are its own (``tests/env/world.py``), and is
taken away again.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance import images
from tests.env import linux, world
from tests.env.cni import CniDirs, make_dirs
from tests.env.http_api import EngineApi, EngineApiError
from tests.env.registry import Certificate, Registry

HTTPS = 443
CERTIFICATES = Path("/etc/docker/certs.d")
"""Where engines look for a registry's authority, at each pull, by the registry's name."""
FOUND_LIMIT = 20.0
"""Seconds."""
BRIDGE = "conformance0"
SUBNET = "198.51.100.0/24"
"""Pods' addresses: TEST-NET-2 (RFC 5737), so that none can be a real host's."""


@contextlib.contextmanager
def registries(place: Path, api: EngineApi) -> Iterator[Registry]:
    """Serve all of critest's images on 127.0.0.1:443 to engines in this test world, under their public names.

    ``place``: an empty folder; ``api``: of the engine that will pull.  Raises RuntimeError outside a test world, when a
    program or package is missing, and when the engine does not find the registries.
    """
    if world.folder() is None:
        raise RuntimeError("registries change /etc: only in a test world (python -m tests.env.world)")
    certificate = make_certificate(place, images.NAMES)
    with Registry(place / "registry", port=HTTPS, certificate=certificate) as registry, _named(certificate):
        for reference, image in images.all_images().items():
            registry.push(image, reference.partition("/")[2])
        _wait_found(api)
        yield registry


def _wait_found(api: EngineApi) -> None:
    """Until the engine sees the names: Go reads /etc/hosts again only when it has not done so for five seconds."""
    deadline = time.monotonic() + FOUND_LIMIT
    while True:
        try:
            api.call("POST", "/images/create", {"fromImage": f"{images.NAMES[0]}/no-such-image", "tag": "none"})
        except EngineApiError as error:
            if " lookup " not in str(error):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"the engine does not find the registries: {error}") from None
        time.sleep(0.1)


@contextlib.contextmanager
def _named(certificate: Certificate) -> Iterator[None]:
    """Let the public names lead to loopback and be trusted."""
    hosts = Path("/etc/hosts")
    before = hosts.read_text()
    made = not CERTIFICATES.parent.exists()
    if made:
        CERTIFICATES.parent.mkdir()
    linux.mount("tmpfs", CERTIFICATES.parent, "tmpfs", data="mode=755")
    try:
        hosts.write_text(f"{before.rstrip()}\n127.0.0.1 {' '.join(images.NAMES)}\n")
        for name in images.NAMES:
            (CERTIFICATES / name).mkdir(parents=True)
            shutil.copy(certificate.authority, CERTIFICATES / name / "ca.crt")
        yield
    finally:
        hosts.write_text(before)
        linux.umount(CERTIFICATES.parent)
        if made:
            CERTIFICATES.parent.rmdir()


def make_certificate(place: Path, names: Sequence[str]) -> Certificate:
    """An authority and a server's certificate by it, valid for the names and for 127.0.0.1; ``place`` is made.

    Raises RuntimeError when openssl is missing or fails.
    """
    place.mkdir(parents=True, exist_ok=True)
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    days = ("-days", "2")
    signing = ("-addext", "keyUsage=critical,keyCertSign")
    root = ("-subj", "/CN=crishim tests", "-keyout", "ca.key", "-out", "ca.crt")
    _openssl(["req", "-x509", *new_key, *days, *signing, *root], place)
    _openssl(["req", *new_key, "-subj", f"/CN={names[0]}", "-keyout", "server.key", "-out", "server.csr"], place)
    alternatives = ",".join([*(f"DNS:{name}" for name in names), "IP:127.0.0.1"])
    (place / "extensions").write_text(f"subjectAltName={alternatives}\nextendedKeyUsage=serverAuth\n")
    signer = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial")
    _openssl(
        ["x509", "-req", "-in", "server.csr", *signer, *days, "-extfile", "extensions", "-out", "server.crt"], place
    )
    return Certificate(place / "ca.crt", place / "server.crt", place / "server.key")


def _openssl(arguments: Sequence[str], place: Path) -> None:
    try:
        done = subprocess.run(["openssl", *arguments], cwd=place, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RuntimeError("openssl is missing: run tests/env/bootstrap.sh matrix") from None
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()[-500:]}")


@contextlib.contextmanager
def no_segments_left() -> Iterator[None]:
    """Remove the SysV shared memory segments that appear meanwhile: critest makes two and leaves them."""
    before = _segments()
    try:
        yield
    finally:
        for segment in _segments() - before:
            subprocess.run(["ipcrm", "--shmem-id", segment], check=True)


def _segments() -> set[str]:
    """Ids of the segments of this IPC namespace.  Rule: proc_sysvipc(5)."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


@contextlib.contextmanager
def pod_network(place: Path) -> Iterator[CniDirs]:
    """CNI folders with one network: bridge, addresses by host-local, host ports.  ``place`` is made.

    The bridge, which no plugin removes, is removed at the end.  Raises RuntimeError when the reference plugins are
    missing.
    """
    dirs = make_dirs(place)
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(dirs.data),
            "ranges": [[{"subnet": SUBNET}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    dirs.write("conformance", [bridge, {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}])
    try:
        yield dirs
    finally:
        if Path("/sys/class/net", BRIDGE).exists():
            subprocess.run(["ip", "link", "delete", BRIDGE], check=True)
