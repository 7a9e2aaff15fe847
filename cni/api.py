"""The verbs of a CNI runtime, each over a whole network: ADD, DEL, CHECK, GC, STATUS, VERSION.

Rules that stay with the caller (CNI 1.1.0, section 3, "Lifecycle & Ordering"): no two verbs for one container at a
time; a failed or cancelled ADD is followed by DEL; the result of ADD is kept for CHECK and DEL, and the configuration
and arguments of DEL are those of ADD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cni import derive, jsontext, versions
from cni.args import encode_args
from cni.conf import NetworkConfList
from cni.errors import AttachmentError, CNIError, IncompatibleVersions, InvocationFailed, PluginCrashed, UnsupportedVerb
from cni.invoke import Invoker
from cni.names import is_container_id, is_interface_name
from cni.results import Result, parse_result


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """One container's interface in a network.  Raises AttachmentError when made with what CNI cannot carry."""

    container_id: str
    ifname: str
    netns: str
    """Path of the network namespace; "" only for DEL, when it is gone."""
    args: Mapping[str, str] = field(default_factory=dict)
    """CNI_ARGS."""
    capability_args: Mapping[str, Any] = field(default_factory=dict)
    """Dynamic arguments by capability (`portMappings`, `bandwidth`, …), for plugins that declare it."""

    def __post_init__(self) -> None:
        if not is_container_id(self.container_id):
            raise AttachmentError(f"{self.container_id!r} is no container id as CNI has it")
        if not is_interface_name(self.ifname):
            raise AttachmentError(f"{self.ifname!r} is no name for an interface")
        if "\0" in self.netns:
            raise AttachmentError(f"{self.netns!r} is no path")
        encode_args(self.args)


class CNI:
    """Runs the verbs with the plugins of one `Invoker`.  Keeps no state."""

    def __init__(self, invoker: Invoker, timeout: float = 120.0) -> None:
        """`timeout`: seconds that one plugin may take for one verb."""
        self._invoker = invoker
        self._timeout = timeout

    def missing(self, network: NetworkConfList) -> str:
        """Say which plugin of `network` is not installed, with its position; "" when none is missing.

        Cheap (a few stats).
        """
        for index, plugin in enumerate(network.plugins):
            try:
                self._invoker.find(plugin["type"])
            except CNIError as error:
                return f"plugins[{index}].type: {error}"
        return ""

    async def add(self, network: NetworkConfList, attachment: Attachment) -> Result:
        """ADD: run the plugins in order, each with the result of the one before; return the last one's.

        Stops at the first failure and raises it, without any DEL: the caller does that, also after a cancellation.
        """
        if not attachment.netns:
            raise AttachmentError("ADD needs the path of a network namespace")
        result: Result | None = None
        for plugin in network.plugins:
            output = await self._run(network, plugin, "ADD", attachment, result)
            result = self._result(plugin, output, network.cni_version)
        assert result is not None, "a conflist has at least one plugin"
        return result

    async def delete(self, network: NetworkConfList, attachment: Attachment, result: Result | None = None) -> None:
        """DEL: run the plugins in reverse order, each with ADD's final `result` (None: not known).

        Idempotent as far as the plugins are.  Stops at the first failure and raises it: then call again.
        """
        known = result if versions.has_prev_result_on_delete(network.cni_version) else None
        for plugin in reversed(network.plugins):
            await self._run(network, plugin, "DEL", attachment, known)

    async def check(self, network: NetworkConfList, attachment: Attachment, result: Result) -> None:
        """CHECK: ask each plugin in order whether the attachment is as ADD's `result` says; raises the first 'no'.

        Raises UnsupportedVerb where the version has no CHECK.  With `disableCheck` there is nothing to be asked.
        """
        if network.disable_check:
            return
        if not versions.has_check(network.cni_version):
            raise UnsupportedVerb(f"network {network.name}: CNI {network.cni_version} has no CHECK")
        for plugin in network.plugins:
            await self._run(network, plugin, "CHECK", attachment, result)

    async def gc(self, network: NetworkConfList, valid: Sequence[tuple[str, str]]) -> None:
        """GC: let each plugin release what belongs to none of the attachments `valid` (container id, interface name).

        Runs all plugins, then raises the first failure.  Nothing is run with `disableGC`.  Raises UnsupportedVerb
        where the version has no GC.
        """
        if network.disable_gc:
            return
        self._require_1_1(network, "GC")
        failures: list[CNIError] = []
        for plugin in network.plugins:
            config = derive.gc_config(network, plugin, valid)
            try:
                await self._invoke(plugin, {"CNI_COMMAND": "GC"}, config)
            except CNIError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    async def status(self, network: NetworkConfList) -> None:
        """STATUS: ask each plugin whether it can serve an ADD; raises the first 'no'.

        Raises UnsupportedVerb where the version has no STATUS.
        """
        self._require_1_1(network, "STATUS")
        for plugin in network.plugins:
            await self._invoke(plugin, {"CNI_COMMAND": "STATUS"}, derive.execution_config(network, plugin))

    async def version(self, plugin: str) -> tuple[str, ...]:
        """VERSION: ask `plugin` for the specification versions it supports."""
        output = await self._invoke({"type": plugin}, {"CNI_COMMAND": "VERSION"}, {"cniVersion": versions.NEWEST})
        try:
            supported = jsontext.loads(output)["supportedVersions"]
        except (ValueError, KeyError, TypeError) as error:
            raise PluginCrashed(plugin, "VERSION", "it does not tell its versions") from error
        if not isinstance(supported, list) or not all(isinstance(version, str) for version in supported):
            raise PluginCrashed(plugin, "VERSION", "it does not tell its versions")
        return tuple(supported)

    async def negotiate(self, network: NetworkConfList) -> NetworkConfList:
        """Ask each plugin for its versions; return `network` in the newest that it offers and all plugins speak.

        (CNI 1.1.0, section 1, `cniVersions`: "a list of all CNI versions which this configuration supports".)  Raises
        IncompatibleVersions, naming the plugins, when there is none.
        """
        spoken = {kind: await self.version(kind) for kind in dict.fromkeys(one["type"] for one in network.plugins)}
        offered = network.offered or (network.cni_version,)
        common = tuple(version for version in offered if all(version in known for known in spoken.values()))
        best = versions.best(common)
        if best is None:
            told = "; ".join(f"{kind} speaks {', '.join(known)}" for kind, known in spoken.items())
            raise IncompatibleVersions(f"network {network.name} offers CNI {', '.join(offered)}, but {told}")
        text = jsontext.dumps(jsontext.loads(network.text) | {"cniVersion": best, "cniVersions": [best]})
        return replace(network, cni_version=best, text=text, offered=(best,))

    async def _run(
        self,
        network: NetworkConfList,
        plugin: Mapping[str, Any],
        verb: str,
        attachment: Attachment,
        prev_result: Result | None,
    ) -> bytes:
        environment = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": attachment.container_id,
            "CNI_NETNS": attachment.netns,
            "CNI_IFNAME": attachment.ifname,
            "CNI_ARGS": encode_args(attachment.args),
        }
        raw = None if prev_result is None else prev_result.raw
        return await self._invoke(
            plugin, environment, derive.execution_config(network, plugin, attachment.capability_args, raw)
        )

    async def _invoke(
        self, plugin: Mapping[str, Any], environment: Mapping[str, str], config: Mapping[str, Any]
    ) -> bytes:
        stdin = jsontext.dumps(config).encode()
        return await self._invoker.invoke(plugin["type"], environment, stdin, self._timeout)

    @staticmethod
    def _require_1_1(network: NetworkConfList, verb: str) -> None:
        if not versions.has_gc_and_status(network.cni_version):
            raise UnsupportedVerb(f"network {network.name}: CNI {network.cni_version} has no {verb}")

    @staticmethod
    def _result(plugin: Mapping[str, Any], output: bytes, version: str) -> Result:
        try:
            return parse_result(output, version)
        except CNIError as error:
            raise InvocationFailed(plugin["type"], "ADD", str(error)) from error
