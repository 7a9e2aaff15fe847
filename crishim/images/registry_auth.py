"""From CRI's AuthConfig, in all its forms, to the credentials that an engine sends with one pull."""

from __future__ import annotations

import base64
import binascii
import logging

from crishim.engine.values import RegistryAuth
from crishim.errors import InvalidArgument
from crishim.images.reference import DEFAULT_REGISTRY, Reference, canonical_registry
from crishim.model import AuthConfig

DOCKER_HUB = "https://index.docker.io/v1/"
"""The name by which engines know Docker Hub's credentials."""

log = logging.getLogger(__name__)


def make_registry_auth(auth: AuthConfig | None, reference: Reference) -> RegistryAuth | None:
    """The credentials for a pull of `reference`, None for an anonymous one.

    `username`, or else `auth` (base64 of `user:password`); tokens as they are. The server is the registry that the
    reference names; where it names none, `server_address`, else Docker Hub. Credentials that `server_address` gives to
    another registry than the reference names are not sent: they would be told to a stranger.

    Raises InvalidArgument for an `auth` that cannot be read.
    """
    if auth is None:
        return None
    username, password = auth.username, auth.password
    if not username and auth.auth:
        username, password = parse_basic_auth(auth.auth)
    if not (username or password or auth.identity_token or auth.registry_token):
        return None
    server = auth.server_address
    if reference.names_registry:
        if server and canonical_registry(server) != reference.registry:
            log.warning("pull of %s goes without credentials: those given are for %s", reference, server)
            return None
        server = DOCKER_HUB if reference.registry == DEFAULT_REGISTRY else reference.registry
    return RegistryAuth(
        server=server or DOCKER_HUB,
        username=username,
        password=password,
        identity_token=auth.identity_token,
        registry_token=auth.registry_token,
    )


def parse_basic_auth(text: str, *, field: str = "auth.auth") -> tuple[str, str]:
    """Username and password of base64 `user:password`, as docker's config.json holds it. Raises InvalidArgument.

    The message never repeats the text, which is a secret.
    """
    try:
        decoded = base64.b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidArgument("is not base64 of a text", field=field) from error
    username, colon, password = decoded.rstrip("\0").partition(":")  # some writers of config.json pad with NUL
    if not colon or not username:
        raise InvalidArgument("is not base64 of `user:password`", field=field)
    return username, password
