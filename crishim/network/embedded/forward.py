"""Lets the pods' packets pass foreign FORWARD chains, Docker's first of all.

An accept in our table cannot overrule a drop in another.  So where iptables' FORWARD chain drops, two rules marked
`crishim` that accept what comes from the bridge or goes to it are put at the head of DOCKER-USER, which Docker leaves
to others, or else of FORWARD itself, by the iptables program that owns the chain.  Nothing else of it is touched.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from cni.plugins.nft import foreign
from crishim.network.embedded import legacy

log = logging.getLogger(__name__)

MARK = "crishim"
"""Comment of the rules."""

_PROGRAM = {4: "iptables", 6: "ip6tables"}
_LEGACY_DROPS = ("-P FORWARD DROP", "-A FORWARD -j DROP", "-A FORWARD -j REJECT")
_DOCKER_USER = "DOCKER-USER"
_LIMIT = 10.0  # seconds for one run of iptables


@dataclass(frozen=True)
class _Owner:
    """A FORWARD chain that drops, by the program that it belongs to."""

    version: int
    """4 or 6."""
    flavour: str
    """`nft` or `legacy`."""
    chain: str
    """Where the pair is to be."""
    in_place: bool


class Forward:
    """Sees to the pair of one bridge."""

    def __init__(self, bridge: str) -> None:
        self._bridge = bridge
        self._told: set[str] = set()
        self._legacy: legacy.Seen | None = None

    async def changed(self) -> bool:
        """Say whether anybody changed the older iptables' rules since `ensure`, or whether that cannot be told."""
        if not legacy.is_in_use():
            return False
        now = await asyncio.to_thread(_look_at_legacy)
        return now is None or now != self._legacy

    async def ensure(self) -> str:
        """Put the pair where it is needed and missing; return what keeps us from it, "" when nothing does.

        Runs programs only where a chain drops and lacks the pair, or belongs to the older iptables.
        """
        problems = []
        owners = await asyncio.to_thread(_find_nft)
        try:
            owners += await self._find_legacy()
        except OSError as error:
            problems.append(str(error))
        for owner in owners:
            if owner.in_place:
                continue
            try:
                await self._put(owner)
                log.info(
                    "pods' packets are accepted in %s (%s %s)", owner.chain, _PROGRAM[owner.version], owner.flavour
                )
            except OSError as error:
                problems.append(
                    f"{_PROGRAM[owner.version]}'s chain {owner.chain} drops the pods' packets, and they cannot be "
                    f"accepted there: {error}"
                )
        for chain in await asyncio.to_thread(foreign.forward_chains_that_drop):
            self._warn_of(chain)
        self._legacy = await asyncio.to_thread(_look_at_legacy)
        return "; ".join(problems)

    async def remove(self) -> None:
        """Take the pairs away, wherever they are.  Raises OSError."""
        for version in _PROGRAM:
            for chain in (_DOCKER_USER, "FORWARD"):
                found = await asyncio.to_thread(foreign.find_chain, version, "filter", chain)
                if found is not None and found.mentions(MARK):
                    await self._take(_Owner(version, "nft", chain, in_place=True))
                if legacy.is_in_use(version):
                    await self._take(_Owner(version, "legacy", chain, in_place=True))

    async def _put(self, owner: _Owner) -> None:
        program = await _find_program(owner)
        for rule in self._pair():
            if (await _run(program, "-C", owner.chain, *rule))[0] != 0:
                status, text = await _run(program, "-I", owner.chain, "1", *rule)
                if status != 0:
                    raise OSError(f"{program}: {text}")

    async def _take(self, owner: _Owner) -> None:
        program = await _find_program(owner)
        for rule in self._pair():
            while (await _run(program, "-D", owner.chain, *rule))[0] == 0:
                pass

    def _pair(self) -> tuple[tuple[str, ...], ...]:
        mark = ("-m", "comment", "--comment", MARK, "-j", "ACCEPT")
        return (("-o", self._bridge, *mark), ("-i", self._bridge, *mark))

    async def _find_legacy(self) -> list[_Owner]:
        owners = []
        for version in _PROGRAM:
            if not legacy.is_in_use(version):
                continue
            program = await _find_program(_Owner(version, "legacy", "FORWARD", in_place=False))
            rules = (await _run(program, "-S", "FORWARD"))[1].splitlines()
            if not any(rule.startswith(_LEGACY_DROPS) for rule in rules):
                continue
            chain = _DOCKER_USER if any(_DOCKER_USER in rule.split() for rule in rules) else "FORWARD"
            if chain == _DOCKER_USER:
                rules += (await _run(program, "-S", chain))[1].splitlines()
            marked = [rule for rule in rules if f"--comment {MARK} " in rule and self._bridge in rule]
            owners.append(_Owner(version, "legacy", chain, in_place=len(marked) >= len(self._pair())))
        return owners

    def _warn_of(self, chain: foreign.Chain) -> None:
        """Chains that no iptables owns are their owner's to change: say once that they must let pods pass."""
        if (chain.table, chain.name) == ("filter", "FORWARD") and chain.family != "inet":
            return
        name = f"{chain.family} {chain.table} {chain.name}"
        if name not in self._told:
            self._told.add(name)
            log.warning("chain %s drops what it does not know: it must accept interface %s", name, self._bridge)


def _look_at_legacy() -> legacy.Seen | None:
    """Return what there is of the older iptables' rules, None where it cannot be told: then it is as if it changed."""
    try:
        return legacy.look(MARK)
    except OSError as error:
        log.debug("%s", error)
        return None


def _find_nft() -> list[_Owner]:
    owners = []
    for version in _PROGRAM:
        chain = foreign.find_chain(version, "filter", "FORWARD")
        if chain is None or not chain.drops:
            continue
        marked = chain.mentions(MARK)
        name = "FORWARD"
        if chain.mentions(_DOCKER_USER) and (users := foreign.find_chain(version, "filter", _DOCKER_USER)):
            name = _DOCKER_USER
            marked += users.mentions(MARK)
        owners.append(_Owner(version, "nft", name, in_place=marked >= 2))
    return owners


async def _find_program(owner: _Owner) -> str:
    """Return the program of this flavour.  Raises OSError naming it when it is not installed."""
    base = _PROGRAM[owner.version]
    if path := shutil.which(f"{base}-{owner.flavour}"):
        return path
    sign = "nf_tables" if owner.flavour == "nft" else "legacy"
    if (path := shutil.which(base)) and sign in (await _run(path, "-V"))[1]:
        return path
    raise OSError(f"{base}-{owner.flavour} is not installed")


async def _run(program: str, *arguments: str) -> tuple[int, str]:
    """Run iptables; return its status and what it said.  Raises OSError, also when it takes too long."""
    wait: Sequence[str] = () if arguments == ("-V",) else ("-w", "5")
    process = await asyncio.create_subprocess_exec(
        program,
        *wait,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_LIMIT):
            output, _ = await process.communicate()
    except TimeoutError:
        raise OSError(f"{program} has not ended within {_LIMIT:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.wait())
    return process.returncode or 0, output.decode(errors="replace").strip()
