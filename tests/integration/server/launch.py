"""`python -m crishim`, which tells its coroutines' tasks when it is asked: `python launch.py REPORT serve ...`.

SIGUSR2 writes the names of the tasks that are alive, one a line, to the file REPORT. Nothing else differs.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import signal
import sys
from pathlib import Path
from types import FrameType


def main() -> None:
    """Install the report and become the command."""
    report = Path(sys.argv.pop(1))

    def tell(number: int, frame: FrameType | None) -> None:
        # A signal's handler runs in the main thread, between two steps of the loop that runs there.
        names = sorted(task.get_name() for task in asyncio.all_tasks())
        draft = report.with_suffix(".draft")
        draft.write_text("".join(f"{name}\n" for name in names))
        os.replace(draft, report)

    signal.signal(signal.SIGUSR2, tell)
    runpy.run_module("crishim", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
