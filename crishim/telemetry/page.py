"""An answer of the telemetry server."""

from __future__ import annotations

from dataclasses import dataclass

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Page:
    """Status of HTTP, body, and its type."""

    status: int
    body: bytes
    content_type: str = TEXT


def refusal(status: int, reason: str) -> Page:
    """An answer to what cannot be answered; `reason` is a line for people."""
    return Page(status, f"{reason}\n".encode())
