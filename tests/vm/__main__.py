"""Make ready what a session in the virtual machine needs: ``python -m tests.vm [SUITE]``, as root, with a network.

The image with all that is in it, and critest; once, into the cache.
"""

from __future__ import annotations

import os
import platform
import sys

from tests.conformance import debian, tools
from tests.vm import image, wheels
from tests.vm.image import GuestImage


def main(suite: str) -> int:
    """Exit status: 1 after a line that says why there can be no session."""
    if platform.machine() != "x86_64":
        print(f"vm: not run (the guest is amd64's, and this machine {platform.machine()})", file=sys.stderr)
        return 1
    try:
        image.make_ready(GuestImage(suite))
    except (debian.DebianError, wheels.WheelsError) as error:
        print(f"vm: not run ({error})", file=sys.stderr)
        return 1
    try:
        tools.make_ready()
    except tools.ToolsMissingError as error:
        print(f"vm: without critest ({error})", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else image.DEFAULT_SUITE))
