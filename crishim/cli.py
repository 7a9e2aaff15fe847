"""The command `crishim`: reads flags, hands over, and says in one line what went wrong.

Exit status: 0 all went well, 1 the server could not start or failed, 2 the flags or the configuration are wrong,
3 another process serves on the socket, or the same engine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from crishim import __version__

FAILED, MISCONFIGURED, TAKEN = 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process if None); returns the exit status."""
    began = time.monotonic()
    parser = _make_parser()
    options, unknown = parser.parse_known_args(arguments)
    if options.command == "serve":
        return _serve(options, unknown, began)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command == "install-service":
        return _install_service(options.root)
    if options.command in RUNTIME_COMMANDS:
        return _runtime_command(options)
    print(f"crishim {__version__}")  # noqa: T201 - the command's result
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("crishim", description=_SUMMARY, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"crishim {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        help="serve CRI on a unix socket until stopped",
        description="Serve CRI v1. Each setting may also stand in the file, or in the environment (CRISHIM_LISTEN).",
        allow_abbrev=False,
    )
    _add_settings(serve)
    install = commands.add_parser("install-service", help="write a systemd unit for this installation")
    install.add_argument("--root", type=Path, default=Path("/"), help="folder that is to become / (default: /)")
    for name, text in RUNTIME_COMMANDS.items():
        verb = commands.add_parser(name, help=text, description=_RUNTIME_TEXT, allow_abbrev=False)
        _add_settings(verb, ("engine", "state_dir", "run_dir"))
        if name != "check":
            verb.add_argument("--yes", action="store_true", help="change it without asking")
        if name == "install-runtime":
            verb.add_argument("--runtime", action="append", default=[], help="only this one (may come several times)")
    commands.add_parser("version", help="print the version")
    return parser


RUNTIME_COMMANDS = {
    "install-runtime": "register a front with the engine, for what the engine's API cannot say",
    "uninstall-runtime": "take the front away again",
    "check": "say whether the front is there and works",
}
_RUNTIME_TEXT = (
    "The OCI front stands before each runtime of the engine, for those of crishim's containers that need it. Settings "
    "are read as `crishim serve` reads them, and must be the server's."
)


_SUMMARY = "Kubernetes Container Runtime Interface (CRI v1) on a Docker Engine"


def _add_settings(parser: argparse.ArgumentParser, only: Sequence[str] = ()) -> None:
    """One flag per setting (or for those alone); their values stay text, for all sources are checked together."""
    from crishim.config import Settings
    from crishim.config.sources import DEFAULT_FILE, flag_name

    parser.add_argument("--config", metavar="FILE", type=Path, help=f"file of settings (default: {DEFAULT_FILE})")
    if not only:
        parser.add_argument("--print-config", action="store_true", help="print what is in force, and do not serve")
    for key, field in Settings.model_fields.items():
        if only and key not in only:
            continue
        text = " ".join((field.description or "").split()).replace("%", "%%")
        parser.add_argument(flag_name(key), dest=f"setting_{key}", metavar=key.rpartition("_")[2].upper(), help=text)


def _serve(options: argparse.Namespace, unknown: Sequence[str], began: float) -> int:
    from crishim.config import ConfigProblems, Settings, load
    from crishim.config.printed import print_config

    flags = {key: value for key in Settings.model_fields if (value := getattr(options, f"setting_{key}")) is not None}
    problems = [f"{word}: there is no such flag; `crishim serve --help` lists them" for word in unknown]
    try:
        loaded = load(flags, os.environ, options.config)
    except ConfigProblems as wrong:
        problems += wrong.problems
    if problems:
        for problem in problems:
            _say(problem)
        return MISCONFIGURED
    if options.print_config:
        sys.stdout.write(print_config(loaded))
        return 0
    # Not before: a wrong configuration is told at once, and the server's libraries take half a second to import.
    from crishim.app import StartFailed, run
    from crishim.lock_file import Taken

    try:
        run(loaded.settings, began)
    except Taken as taken:
        _say(str(taken))
        return TAKEN
    except StartFailed as failed:
        _say(str(failed))
        return FAILED
    return 0


def _runtime_command(options: argparse.Namespace) -> int:
    from crishim.config import ConfigProblems, Settings, load

    flags = {
        key: value for key in Settings.model_fields if (value := getattr(options, f"setting_{key}", None)) is not None
    }
    try:
        settings = load(flags, os.environ, options.config).settings
    except ConfigProblems as wrong:
        for problem in wrong.problems:
            _say(problem)
        return MISCONFIGURED
    if settings.engine_is_simulated:
        _say("the simulated engine has no runtimes")
        return MISCONFIGURED
    from crishim.app import make_engine
    from crishim.front.install import commands
    from crishim.front.install.plan import Places
    from crishim.runtime.labels import ANCHORED

    verbs = {"install-runtime": commands.install_runtime, "uninstall-runtime": commands.uninstall_runtime}
    context = commands.Context(
        engine=make_engine(settings),
        engine_socket=settings.engine_socket,
        places=Places(settings.state_dir, settings.desk_path),
        yes=getattr(options, "yes", False),
        only=getattr(options, "runtime", ()),
        anchored=ANCHORED,
    )
    return commands.run(verbs.get(options.command, commands.check), context)


def _install_service(root: Path) -> int:
    from crishim.service.install import install, own_command

    try:
        written = install(root, own_command())
    except OSError as error:
        _say(f"cannot write {error.filename}: {error.strerror}")
        return FAILED
    for path in written:
        print(f"wrote {path}")  # noqa: T201 - the command's result
    print("start it with: systemctl daemon-reload && systemctl enable --now crishim")  # noqa: T201
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"crishim: {line}\n")
