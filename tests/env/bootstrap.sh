#!/bin/bash
# Sets up what the Makefile's targets need, on Debian 12 or newer and Ubuntu 24.04 or newer; does nothing that is done.
#
#   bootstrap.sh venv        .venv with the project and its test extra (again when pyproject.toml changed)
#   bootstrap.sh package     the same with the project and what it needs to run, which is a tenth of it
#   bootstrap.sh engine      a Docker Engine's programs (docker.io by apt where there is no dockerd)
#   bootstrap.sh image       what the test image is made of
#   bootstrap.sh packages    all else that the tests use; unpacked into .cache where installing would start a service
#   bootstrap.sh matrix      what the conformance tests and the engines of the matrix are made of
#   bootstrap.sh vm          an emulator, and what builds a virtual machine for it
#   bootstrap.sh foreign     what builds and runs the other architecture's programs (amd64, arm64): CI's, as it is big
#
# What is missing and cannot be had is said in one line; apt's and pip's own words go to .cache/bootstrap.log.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 PIP_DISABLE_PIP_VERSION_CHECK=1
mkdir -p .cache
log=$PWD/.cache/bootstrap.log

say() { echo "crishim: $*" >&2; }
die() { say "$@"; exit 1; }
need_root() { [ "$(id -u)" = 0 ] || die "needs root to $1: run it by sudo"; }

# One at a time: two runs in one checkout would install over each other.
exec 9>.cache/bootstrap.lock
flock 9

# ---------------------------------------------------------------- apt

apt_get() { apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >>"$log" 2>&1 9>&-; }

updated=
apt_update() {
    [ -z "$updated" ] || return 0
    updated=1
    apt_get update || say "apt-get update failed (see $log); going on with the package lists that are there"
}

# With this file in place packages' services are not started; removed again at the end unless it was there before.
policy=/usr/sbin/policy-rc.d
hold_services() {
    [ ! -e "$policy" ] || return 0
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}

install() { # install WHY PACKAGE ...
    local why=$1
    shift
    need_root "install $* ($why)"
    command -v apt-get >/dev/null || die "no apt-get here: install $* by hand ($why)"
    say "apt-get install $* ($why)"
    hold_services
    apt_get install -y --no-install-recommends "$@" && return 0
    apt_update # the lists may be old or missing
    apt_get install -y --no-install-recommends "$@" || die "cannot install $* ($why): see $log"
}

have() { command -v "$1" >/dev/null 2>&1; }
ensure() { have "$1" || install "the command $1" "${@:2}"; }

unpack() { # unpack PACKAGE WHY: its files below .cache/packages/PACKAGE, no maintainer script run
    local target=$PWD/.cache/packages/$1 folder
    [ ! -e "$target/.complete" ] || return 0
    have apt-get || die "no apt-get here to fetch $1 with ($2)"
    say "fetching $1 ($2)"
    folder=$(mktemp -d)
    rm -rf "$target"
    mkdir -p "$target"
    (cd "$folder" && { apt_get download "$1" || { apt_update; apt_get download "$1"; }; }) ||
        die "cannot fetch the package $1 ($2): see $log"
    dpkg -x "$folder/$1"_*.deb "$target"
    rm -rf "$folder"
    touch "$target/.complete"
}

# ---------------------------------------------------------------- parts

find_python() { # the first Python of 3.11 or newer
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

venv() { install_project '.[test]' ''; }
package() { install_project . -package; }

install_project() { # install_project WHAT KIND: into .venv, unless that or more is there (KIND is empty for all)
    local python stamp
    if ! python=$(find_python); then
        install "Python 3.11 or newer" python3 python3-venv
        python=$(find_python) || die "needs Python 3.11 or newer; this system's python3 is older"
    fi
    # Debian's python3 has the module venv, but not ensurepip, which it needs
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || install "python3 -m venv" python3-venv
    stamp=$PWD/.venv/.installed-$({ cat pyproject.toml; pwd; } | sha256sum | cut -c1-16)
    [ ! -e "$stamp" ] && [ ! -e "$stamp$2" ] || return 0
    say "making .venv with $("$python" --version) and the project's packages"
    .venv/bin/python -c '' >/dev/null 2>&1 || "$python" -m venv --clear .venv >>"$log" 2>&1 ||
        die "cannot make .venv: see $log"
    .venv/bin/python -m pip install -q -e "$1" >>"$log" 2>&1 9>&- ||
        die "pip cannot install the project's packages (is a package index reachable?): see $log"
    rm -f .venv/.installed-*
    touch "$stamp$2"
}

engine() {
    have dockerd || install "a Docker Engine" docker.io
    have dockerd || die "there is no dockerd, and the package docker.io brought none"
    # CAP_SYS_RESOURCE is bit 24; without it engines get a runtime front, which is compiled (tests/env/front.py)
    (((0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status) >> 24) & 1)) || ensure gcc gcc libc6-dev
}

image() { unpack busybox "the test image"; }

packages() {
    ensure gcc gcc libc6-dev
    ensure ip iproute2
    ensure iptables iptables # CNI's portmap, and bridge with ipMasq
    ensure nft nftables # the tests look at the rules with it
    [ -x /usr/lib/cni/bridge ] || install "CNI's reference plugins" containernetworking-plugins
    image
    unpack docker-registry "a registry on loopback"
}

matrix() {
    ensure openssl openssl
    ensure ipcmk util-linux-extra # a spec of critest makes a shared memory segment with it
    ensure patchelf patchelf
    unpack nginx "the images of critest"
}

vm() {
    ensure qemu-system-x86_64 qemu-system-x86
    ensure qemu-img qemu-utils
    ensure mmdebstrap mmdebstrap
    ensure mkfs.ext4 e2fsprogs
    ensure ssh openssh-client
    ensure git git # which names the checkout's files
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || install "Debian's keys" debian-archive-keyring
}

foreign() { # an assembler and a compiler by apt, an emulator as .cache/bin/qemu-ARCH-static
    local cpu package found
    case $(uname -m) in
        x86_64) cpu=aarch64 package=binutils-aarch64-linux-gnu ;;
        aarch64) cpu=x86_64 package=binutils-x86-64-linux-gnu ;;
        *) return 0 ;;
    esac
    ensure "$cpu-linux-gnu-as" "$package"
    ensure "$cpu-linux-gnu-gcc" "${package/binutils/gcc}"
    if have "qemu-$cpu-static" || [ -x ".cache/bin/qemu-$cpu-static" ]; then return 0; fi
    unpack qemu-user-static "an emulator of $cpu"
    found=.cache/packages/qemu-user-static/usr/bin/qemu-$cpu-static
    if [ ! -e "$found" ]; then # since Debian 13 a link into the package qemu-user
        unpack qemu-user "an emulator of $cpu"
        found=.cache/packages/qemu-user/usr/bin/qemu-$cpu
    fi
    [ -x "$found" ] || die "the packages qemu-user-static and qemu-user bring no emulator of $cpu"
    mkdir -p .cache/bin
    cp -L "$found" ".cache/bin/qemu-$cpu-static"
    rm -rf .cache/packages/qemu-user-static .cache/packages/qemu-user
}

case ${1:-} in
    venv | package | engine | image | packages | matrix | vm | foreign) for part in "$@"; do "$part"; done ;;
    *) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
