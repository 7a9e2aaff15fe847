"""`python -m crishim`."""

from __future__ import annotations

import sys

from crishim.cli import main

sys.exit(main())
