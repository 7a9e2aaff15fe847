#!/bin/bash
# What the Makefile's targets do: run.sh TARGET [ARGUMENT ...], arguments go to the program behind it.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
export PATH=$PATH:$PWD/.cache/bin # programs that were unpacked instead of installed
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # su without - and some sudo policies leave them out
target=${1:-}
python=.venv/bin/python

bootstrap() { tests/env/bootstrap.sh "$@"; }
need_root() {
    [ "$(id -u)" = 0 ] || { echo "crishim: make $target makes namespaces and needs root: sudo make $target" >&2; exit 1; }
}
# A checkout that belongs to a user stays that user's whole when root works in it (sudo make test).
if [ "$(id -u)" = 0 ] && [ "$(stat -c %u .)" != 0 ]; then
    trap 'find . -path ./.git -prune -o -user root -exec chown -h --reference=. {} +' EXIT
    run() { "$@"; }
else
    run() { exec "$@"; } # signals reach it directly
fi
# What is done outside test worlds may leave nothing but the cache: where it does, that is named (CI=true: a failure).
judged() { "$python" -m tests.env.machine -- "$@"; }
set_up() { # set_up PART ...: .venv, then these parts of bootstrap.sh
    bootstrap venv
    judged tests/env/bootstrap.sh "$@"
}
# Where something cannot be built, the tests that want it, or the report, say that it is missing.
build() { judged sh -c '"$@" || true' sh "$python" -m "$@"; }
in_world() { run "$python" -m tests.env.world -- "$@"; }

case $target in
    test)
        need_root
        if [ "${CI:-}" = true ]; then
            set_up packages engine foreign
            build tests.reference_plugins.build
        else
            set_up packages engine
        fi
        build tests.conformance.tools crictl
        build tests.streaming_client.build
        in_world "$python" -m pytest "${@:2}"
        ;;
    soak)
        need_root
        set_up packages engine matrix $([ "${CI:-}" != true ] || echo foreign)
        build tests.reference_plugins.build
        run "$python" -m tests.env.machine -- "$python" -m tests.conformance.soak "${@:2}"
        ;;
    matrix)
        need_root
        set_up packages engine matrix
        run "$python" -m tests.env.machine -- "$python" -m tests.conformance.matrix "${@:2}"
        ;;
    vm)
        need_root
        export CRISHIM_VM_SUITE=${SUITE:-${CRISHIM_VM_SUITE:-trixie}}
        set_up packages vm
        judged "$python" -m tests.vm "$CRISHIM_VM_SUITE"
        # the session's limit; SIGINT, so that pytest still says what became of the tests
        in_world timeout --foreground --signal=INT --kill-after=60 "${CRISHIM_VM_LIMIT:-1500}" \
            "$python" -m pytest -o faulthandler_timeout=0 tests/vm "${@:2}"
        ;;
    demo)
        need_root
        bootstrap package image
        run "$python" -m tests.env.demo "${@:2}"
        ;;
    bench)
        need_root
        set_up packages engine matrix
        build tests.conformance.tools critest crictl
        build tests.conformance.cri_client
        build tests.streaming_client.build
        build tests.bench.containerd.build
        in_world "$python" -m tests.bench "${@:2}"
        ;;
    bench-compare)
        [ $# = 3 ] || { echo "crishim: make bench-compare A.json B.json" >&2; exit 2; }
        bootstrap venv
        run "$python" -m tests.bench --compare "${@:2}"
        ;;
    lint)
        bootstrap venv
        run "$python" -m pytest tests/lint "${@:2}"
        ;;
    gen)
        bootstrap venv
        run "$python" api/generate.py "${@:2}"
        ;;
    clean)
        rm -rf .venv .cache build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis ./*.egg-info
        find . -name __pycache__ -prune -exec rm -rf {} +
        ;;
    *)
        sed -n '2s/^# //p' "$0" >&2
        exit 2
        ;;
esac
