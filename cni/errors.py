"""Everything that can go wrong between a runtime and CNI plugins, as one family of exceptions."""

# ruff: noqa: N818 - named by what happened to which of the specification's nouns

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """Error codes that the specification reserves (CNI 1.1.0, section 5, "Error"); plugins' own begin at 100."""

    INCOMPATIBLE_VERSION = 1
    UNSUPPORTED_FIELD = 2
    UNKNOWN_CONTAINER = 3
    INVALID_ENVIRONMENT = 4
    IO_FAILURE = 5
    DECODING_FAILURE = 6
    INVALID_CONFIG = 7
    TRY_AGAIN_LATER = 11
    PLUGIN_NOT_AVAILABLE = 50
    LIMITED_CONNECTIVITY = 51


class CNIError(Exception):
    """Base of all errors of this library."""


class ConfError(CNIError):
    """A network configuration that cannot be used: which file, where in it, and why."""

    def __init__(self, reason: str, *, path: str = "", position: str = "") -> None:
        """`position`: line and column where the text is no JSON, else the field (`plugins[1].type`)."""
        super().__init__(": ".join(part for part in (path, position, reason) if part))
        self.reason = reason
        self.path = path
        self.position = position


class AttachmentError(CNIError):
    """A container id, interface name or argument that CNI cannot carry; nothing was run."""


class ResultError(CNIError):
    """A plugin's result that is not one of the specification's result types."""


class UnsupportedVerb(CNIError):
    """The configuration's version, or its author, does not allow the verb (CHECK, GC, STATUS); nothing was run."""


class IncompatibleVersions(CNIError):
    """No version of the specification is offered by the configuration and spoken by all of its plugins."""


class PluginNotFound(CNIError):
    """No executable of this name in the folders for plugins."""

    def __init__(self, plugin: str, reason: str) -> None:
        super().__init__(f"plugin {plugin!r}: {reason}")
        self.plugin = plugin


class StrayLeft(CNIError):
    """A plugin's process that a killed runtime left cannot be ended: it would go on with what it is at."""


class InvocationFailed(CNIError):
    """Base of the ways in which a plugin that was run failed."""

    def __init__(self, plugin: str, verb: str, reason: str) -> None:
        super().__init__(f"plugin {plugin} failed {verb}: {reason}")
        self.plugin = plugin
        self.verb = verb
        self.reason = reason


class PluginError(InvocationFailed):
    """The plugin reported an error object."""

    def __init__(self, plugin: str, verb: str, code: int, message: str, details: str = "") -> None:
        text = f"{message} ({details})" if details else message
        super().__init__(plugin, verb, f"{text} [code {code}]")
        self.code = code
        self.message = message
        self.details = details


class PluginCrashed(InvocationFailed):
    """The plugin ended without a result and without an error object."""


class PluginTimeout(InvocationFailed):
    """The plugin did not end in time; it and its process group were ended."""
