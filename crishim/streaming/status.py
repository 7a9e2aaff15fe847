"""How a process ended, as clients are told: metav1.Status in JSON from protocol version 4 on, text before."""

from __future__ import annotations

import json
from dataclasses import dataclass

from crishim.errors import CRIError, Kind

_HTTP: dict[Kind, tuple[int, str]] = {
    Kind.INVALID_ARGUMENT: (400, "BadRequest"),
    Kind.OUT_OF_RANGE: (400, "BadRequest"),
    Kind.UNAUTHENTICATED: (401, "Unauthorized"),
    Kind.PERMISSION_DENIED: (403, "Forbidden"),
    Kind.NOT_FOUND: (404, "NotFound"),
    Kind.ALREADY_EXISTS: (409, "AlreadyExists"),
    Kind.FAILED_PRECONDITION: (409, "Conflict"),
    Kind.ABORTED: (409, "Conflict"),
    Kind.RESOURCE_EXHAUSTED: (429, "TooManyRequests"),
    Kind.UNAVAILABLE: (503, "ServiceUnavailable"),
    Kind.DEADLINE_EXCEEDED: (504, "Timeout"),
}
"""Kind of error → status of HTTP and reason of Kubernetes; any other is 500, InternalError."""


@dataclass(frozen=True, slots=True)
class Status:
    """The end of an exec or attach."""

    exit_code: int = 0
    error: str = ""
    """Why there is no exit code."""
    code: int = 500
    reason: str = "InternalError"

    @classmethod
    def of_error(cls, error: CRIError) -> Status:
        """The status of a session that failed."""
        code, reason = _HTTP.get(error.kind, (500, "InternalError"))
        return cls(error=str(error), code=code, reason=reason)

    def as_json(self) -> bytes:
        """As metav1.Status; a non-zero exit is told the way that clients look for it."""
        status: dict[str, object] = {"metadata": {}, "status": "Success"}
        if self.error:
            status |= {"status": "Failure", "message": self.error, "reason": self.reason, "code": self.code}
            status["details"] = {"causes": [{"message": self.error}]}
        elif self.exit_code:
            cause = {"reason": "ExitCode", "message": str(self.exit_code)}
            status |= {"status": "Failure", "message": self._text(), "reason": "NonZeroExitCode"}
            status["details"] = {"causes": [cause]}
        return json.dumps(status).encode()

    def as_text(self) -> bytes:
        """As text, empty for success."""
        return (self.error or (self._text() if self.exit_code else "")).encode()

    def _text(self) -> str:
        return f"command terminated with non-zero exit code: {self.exit_code}"
