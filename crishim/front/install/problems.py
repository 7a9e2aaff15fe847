"""What can be wrong with installing the front."""

from __future__ import annotations


class FrontProblem(Exception):  # noqa: N818 - one line for people: why it cannot be done
    """The front cannot be installed, taken away or checked; what was begun is undone."""
