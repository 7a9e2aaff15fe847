"""How a request names an image, and what it needs to fetch one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec:
    """An image as a caller names it (CRI `ImageSpec`)."""

    image: str = ""
    """Name with tag or digest, or an id that PullImage gave: a kubelet creates containers by id."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    user_specified_image: str = ""
    """The name in the pod's manifest when `image` holds an id; only for showing to people."""
    runtime_handler: str = ""
    """Handler the image is meant for; empty is the default one."""
    image_ref: str = ""
    """The id that PullImage gave for `image`; a runtime fills it in answers."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AuthConfig:
    """Credentials for a registry (CRI `AuthConfig`). Never stored: only handed to the engine with one pull.

    The representation names which secrets are present and shows none of them.
    """

    username: str = ""
    password: str = ""
    auth: str = ""
    """`username:password` in base64; counts where `username` is empty."""
    server_address: str = ""
    identity_token: str = ""
    """Refresh token with which the engine asks the registry for an access token."""
    registry_token: str = ""
    """Bearer token sent to the registry as it is."""

    def __repr__(self) -> str:
        secrets = (
            f"{name}=<hidden>"
            for name in ("password", "auth", "identity_token", "registry_token")
            if getattr(self, name)
        )
        shown = [f"username={self.username!r}", f"server_address={self.server_address!r}", *secrets]
        return f"AuthConfig({', '.join(shown)})"
