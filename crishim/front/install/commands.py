"""`crishim install-runtime`, `uninstall-runtime` and `check`: what they do, in order, and what they say.

Exit status: 0 done (or already so), 1 not done or, for `check`, something is wrong.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crishim.engine.api import Engine
from crishim.engine.twins import twin_name
from crishim.errors import CRIError
from crishim.front.install import changes
from crishim.front.install.engine_process import EngineProcess, find_engine
from crishim.front.install.files import program_bytes
from crishim.front.install.plan import Places, make_plan
from crishim.front.install.problems import FrontProblem
from crishim.front.install.proof import refused
from crishim.front.twins import read_conf
from crishim.front.wire import STRANGER


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the commands work on."""

    engine: Engine
    engine_socket: Path
    places: Places
    yes: bool = False
    """Do not ask before changing something."""
    only: Collection[str] = ()
    anchored: Mapping[str, str] = field(default_factory=dict)
    """Labels of the engine's objects of pods that can go on with a front only."""

    async def connect(self) -> EngineProcess:
        """The engine's process, once it has answered. Raises CRIError, FrontProblem."""
        facts = await self.engine.connect()
        return await asyncio.to_thread(find_engine, self.engine_socket, facts.daemon_pid)


def run(command: Callable[[Context], Awaitable[int]], context: Context) -> int:
    """Run one of the three below, and say in one line what went wrong."""

    async def work() -> int:
        try:
            if os.geteuid() != 0:
                raise FrontProblem("needs root")
            return await command(context)
        except (FrontProblem, CRIError) as error:
            sys.stderr.write(f"crishim: {error}\n")
            return 1
        finally:
            await context.engine.close()

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the proof's desk refuses on purpose
    try:
        return asyncio.run(work())
    finally:
        logging.disable(before)


async def install_runtime(context: Context) -> int:
    """Give each runtime of the engine its fronted twin."""
    process = await context.connect()
    facts = await context.engine.connect()
    plan = make_plan(facts, process, context.places, context.only)
    for runtime, why in plan.left.items():
        _say(f"left alone: {runtime} {why}")
    if plan.fresh:
        _say(plan.diff())
        await _confirm(context, f"change {plan.file} and make the engine reload it?")
    await changes.install(context.engine, process, plan, context.places, _say)
    for twin in plan.known:
        _say(f"was there already: {twin.name}; its program is that of this version now")
    if plan.fresh:
        names = ", ".join(twin.name for twin in plan.fresh)
        _say(f"installed: {names}. A running crishim uses them from now on; `crishim uninstall-runtime` undoes it")
    return 0


async def uninstall_runtime(context: Context) -> int:
    """Take this server's twins away again."""
    process = await context.connect()
    facts = await context.engine.connect()
    twins = changes.installed(facts, process.daemon_json, context.places)
    if not twins:
        _say("there is nothing to take away: the engine knows no front of this server")
        return 0
    resting = await changes.refuse_while_used(context.engine, list(twins), context.anchored)
    if resting:
        _say(f"{resting} containers that do not run were made with the front, and could not be started again")
    without, diff = changes.removal(process, list(twins))
    _say(diff)
    await _confirm(context, f"change {process.daemon_json} and make the engine reload it?")
    # Once more: people may think for hours.
    await changes.refuse_while_used(context.engine, list(twins), context.anchored)
    await changes.uninstall(context.engine, process, process.daemon_json, without, twins)
    _say(f"taken away: {', '.join(twins)}")
    return 0


async def check(context: Context) -> int:
    """Say of each runtime whether its front is there and asks this server; changes nothing that lasts."""
    await context.connect()
    facts = await context.engine.connect()
    problems = 0
    for runtime in facts.runtimes:
        if runtime not in facts.twins:
            _say(f"{runtime}: has no front")
            continue
        try:
            await asyncio.to_thread(_look, Path(facts.twins[runtime]), context.places.desk)
            words = await refused(context.engine, facts, twin_name(runtime))
            if not words:
                raise FrontProblem("its front let a container start that is nobody's")
            if STRANGER not in words:
                raise FrontProblem(f"its front does not reach the server, and starts nothing: {words}")
            _say(f"{runtime}: its front asks this server, which refuses a container that is not its own, as it must")
        except FrontProblem as problem:
            problems += 1
            _say(f"{runtime}: {problem}")
    if not facts.twins:
        _say("the engine knows no front: crishim install-runtime adds it")
        problems += 1
    return 1 if problems else 0


def _look(program: Path, desk: Path) -> None:
    """Raise FrontProblem unless the files of a twin are as this version would make them."""
    try:
        content, conf = program.read_bytes(), read_conf(program)
    except (OSError, ValueError) as error:
        raise FrontProblem(f"{error}: run crishim install-runtime") from error
    if conf.desk != str(desk):
        raise FrontProblem(f"its front asks at {conf.desk}, not at {desk}")
    if not os.access(conf.runtime, os.X_OK):
        raise FrontProblem(f"the runtime behind its front, {conf.runtime}, is not there")
    if content != program_bytes():
        raise FrontProblem("its front is another version's: run crishim install-runtime")


async def _confirm(context: Context, question: str) -> None:
    """Return if it may go on. Raises FrontProblem."""
    if context.yes:
        return
    if not sys.stdin.isatty():
        raise FrontProblem("nothing was changed: say --yes where nobody can be asked")
    answer = await asyncio.to_thread(input, f"{question} [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise FrontProblem("nothing was changed")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
