"""The configuration: one model, and where its values come from.

Nothing outside reads an environment variable or a file of settings. Not for: making what the settings name; only the
composition root (`crishim.app`) does.
"""

from __future__ import annotations

from crishim.config.settings import Settings
from crishim.config.sources import ConfigProblems, Loaded, load

__all__ = ["ConfigProblems", "Loaded", "Settings", "load"]
