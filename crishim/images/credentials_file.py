"""Credentials for the configured sandbox image, out of a file such as docker's own `config.json`."""

from __future__ import annotations

import json
from pathlib import Path

from crishim.errors import InvalidArgument
from crishim.images.reference import canonical_registry, parse_reference
from crishim.model import AuthConfig

_FIELD = "sandbox_image_credentials"


def read_credentials(path: Path, image: str) -> AuthConfig | None:
    """The file's `auths` entry for the image's registry, None if it has none. Read at each pull, so that a file that is
    replaced counts at once.

    Raises InvalidArgument when the file cannot be read, is no such file, or leaves the credentials to a helper program.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror}", field=_FIELD) from error
    except ValueError as error:
        raise InvalidArgument(f"{path} is not JSON", field=_FIELD) from error
    auths = content.get("auths", {}) if isinstance(content, dict) else None
    if not isinstance(auths, dict):
        raise InvalidArgument(f"{path} has no object `auths`", field=_FIELD)
    registry = parse_reference(image).registry
    for server, entry in auths.items():
        if canonical_registry(server) == registry and isinstance(entry, dict):
            found = AuthConfig(
                username=str(entry.get("username", "")),
                password=str(entry.get("password", "")),
                auth=str(entry.get("auth", "")),
                identity_token=str(entry.get("identitytoken", "")),
                registry_token=str(entry.get("registrytoken", "")),
                server_address=server,
            )
            if found.username or found.auth or found.identity_token or found.registry_token:
                return found
    if registry in content.get("credHelpers", {}) or content.get("credsStore"):
        raise InvalidArgument(f"{path} leaves the credentials of {registry} to a helper program", field=_FIELD)
    return None
