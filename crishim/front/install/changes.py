"""Installing a plan, and taking twins away again. Half done is undone: files, daemon.json and what the engine knows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from crishim.engine.api import Engine
from crishim.engine.twins import twin_name
from crishim.engine.values import EngineFacts
from crishim.errors import CRIError
from crishim.front.install import daemon_json
from crishim.front.install.engine_process import EngineProcess
from crishim.front.install.files import TwinFiles, program_bytes, replace_file
from crishim.front.install.plan import Places, Plan, read_text, show_diff
from crishim.front.install.problems import FrontProblem
from crishim.front.install.proof import prove, users_of

RELOAD_LIMIT = 10.0
"""Seconds that the engine may take to read its settings again."""
_LOOK_EVERY = 0.05

Say = Callable[[str], None]


async def install(engine: Engine, process: EngineProcess, plan: Plan, places: Places, say: Say) -> None:
    """Carry out a plan. Raises FrontProblem, or whatever interrupted it, after undoing what was begun."""
    program = program_bytes()
    try:
        for twin in plan.known:
            twin.files.place(program, twin.conf)
    except OSError as error:
        raise FrontProblem(f"cannot write {error.filename}: {error.strerror}") from error
    if not plan.fresh:
        process.reload()
        return
    names = [twin.name for twin in plan.fresh]
    try:
        try:
            for twin in plan.fresh:
                twin.files.place(program, replace(twin.conf, desk=str(places.proof_desk)))
            replace_file(plan.file, plan.after.encode())
        except OSError as error:
            raise FrontProblem(f"cannot write {error.filename}: {error.strerror}") from error
        process.reload()
        facts = await _wait_listed(engine, names, wanted=True)
        for twin in plan.fresh:
            await prove(engine, facts, twin.name, places.proof_desk)
            say(f"proven: {twin.name} asks, is refused, and runs what it is told")
        for twin in plan.fresh:
            twin.files.tell(twin.conf)
        process.reload()  # nothing is new to the engine; a server looks at its twins whenever the engine has reloaded
    except BaseException as error:
        undoing = asyncio.ensure_future(_undo(engine, process, plan))
        try:
            await asyncio.shield(undoing)
        except asyncio.CancelledError:
            await undoing
            raise
        except (FrontProblem, CRIError, OSError) as left:
            raise FrontProblem(f"{error}; and undoing it failed: {left}") from error
        if isinstance(error, CRIError):
            raise FrontProblem(str(error)) from error
        raise


async def _undo(engine: Engine, process: EngineProcess, plan: Plan) -> None:
    names = [twin.name for twin in plan.fresh]
    now = read_text(plan.file)
    without = daemon_json.without_runtimes(now or "", names)
    try:
        if now is not None and now != without:
            await _take_out(engine, process, plan.file, without, names)
    finally:  # also where the engine has gone, or does not listen
        if now == plan.after and plan.before is not None:
            replace_file(plan.file, plan.before.encode())
        elif now == plan.after:
            plan.file.unlink()
        for twin in plan.fresh:
            twin.files.take_away()


async def _take_out(engine: Engine, process: EngineProcess, file: Path, without: str, names: Collection[str]) -> None:
    """Make the engine forget runtimes. An engine of 20.10 only takes note of those it no longer finds while the key
    is there: an empty one is left out after that."""
    replace_file(file, without.encode())
    process.reload()
    await _wait_listed(engine, names, wanted=False)
    replace_file(file, daemon_json.without_empty(without).encode())


async def _wait_listed(engine: Engine, names: Collection[str], *, wanted: bool) -> EngineFacts:
    """Wait until the engine lists all of these twins, or none of them."""
    end = time.monotonic() + RELOAD_LIMIT
    while True:
        facts = await engine.connect()
        listed = {twin_name(runtime) for runtime in facts.twins} & set(names)
        if listed == (set(names) if wanted else set()):
            return facts
        if time.monotonic() > end:
            verb = "list" if wanted else "forget"
            raise FrontProblem(
                f"the engine does not {verb} {', '.join(names)} after {RELOAD_LIMIT:g} s; its own log says what "
                "it does not like in daemon.json"
            )
        await asyncio.sleep(_LOOK_EVERY)


def installed(facts: EngineFacts, file: Path, places: Places) -> dict[str, Path]:
    """This server's twins, by name with their program, that the engine or its file knows. Raises FrontProblem."""
    found = {twin_name(runtime): Path(program) for runtime, program in facts.twins.items()}
    try:
        for name, entry in daemon_json.listed(read_text(file) or "").items():
            if isinstance(entry, dict) and isinstance(entry.get("path"), str):
                found.setdefault(name, Path(entry["path"]))
    except daemon_json.NotEditable as error:
        raise FrontProblem(f"{file} cannot be read: {error}") from error
    return {name: program for name, program in found.items() if program == places.programs / name}


def removal(process: EngineProcess, names: Collection[str]) -> tuple[str, str]:
    """What daemon.json is to be without these runtimes, and the change for people. Raises FrontProblem."""
    file = process.daemon_json
    before = read_text(file) or ""
    try:
        if (default := daemon_json.default_runtime(before) or process.default_runtime) in names:
            raise FrontProblem(
                f"{default} is the engine's {daemon_json.DEFAULT}, and without it the engine would not start: choose "
                "another one first, and restart the engine"
            )
        without = daemon_json.without_runtimes(before, names)
        return without, show_diff(file, before, daemon_json.without_empty(without))
    except daemon_json.NotEditable as error:
        raise FrontProblem(f"{file} cannot be changed: {error}") from error


async def refuse_while_used(engine: Engine, names: Collection[str], anchored: Mapping[str, str]) -> int:
    """Raise FrontProblem while containers of these runtimes run: the engine could not end them any more. And while
    there are pods, known by the labels `anchored`, in which no container could be created any more.

    Returns how many there are that do not run; those cannot be started again without the front.
    """
    users = await users_of(engine, set(names))
    if running := [container_id[:12] for container_id, runs in users.items() if runs]:
        shown = ", ".join(running[:5]) + (", …" if len(running) > 5 else "")
        raise FrontProblem(f"{len(running)} containers run by the front ({shown}): drain the node first")
    if anchored and (pods := await engine.list_containers(anchored)):
        raise FrontProblem(f"{len(pods)} pods have no process of their own, and need the front: remove them first")
    return len(users)


async def uninstall(engine: Engine, process: EngineProcess, file: Path, without: str, twins: dict[str, Path]) -> None:
    """Take twins away: from the engine, then their files. Raises FrontProblem."""
    try:
        if read_text(file) is not None:
            await _take_out(engine, process, file, without, list(twins))
        for program in twins.values():
            TwinFiles(program).take_away()
        for folder in {program.parent for program in twins.values()}:
            if not any(folder.iterdir()):
                folder.rmdir()
    except OSError as error:
        raise FrontProblem(f"cannot change {error.filename}: {error.strerror}") from error
