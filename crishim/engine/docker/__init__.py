"""The Docker Engine behind `crishim.engine.api.Engine`: its HTTP API on a unix socket, and nothing else of Docker's.

For: JSON to and from our values, status codes to our errors, limits of time, streams that close. Not for: retrying,
remembering, or knowing what a pod is.
"""

from __future__ import annotations

from crishim.engine.docker.adapter import DockerEngine
from crishim.engine.docker.deadlines import Deadlines

__all__ = ["Deadlines", "DockerEngine"]
