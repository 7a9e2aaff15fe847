"""A plugin as a program: CNI_* in the environment, the configuration on stdin, the answer on stdout."""

from __future__ import annotations

import os
import sys
import traceback

from cni import jsontext
from cni.errors import Code
from cni.plugins import dispatch
from cni.plugins.api import CallFailed, Plugin

_INTERNAL = 999  # what the reference plugins tell where the specification has no code


def main(plugin: Plugin) -> int:
    """Serve the one verb that the environment names; return the exit status.

    An error is printed on stdout as an error object, with status 1 (CNI 1.1.0, section 5, "Error").
    """
    try:
        stdin = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
        answer = dispatch.run(plugin, os.environ, stdin)
        for work in answer.deferred:
            work()
    except CallFailed as failure:
        return _fail(failure)
    except OSError as error:
        return _fail(CallFailed(Code.IO_FAILURE, str(error)))
    except Exception as error:
        traceback.print_exc()  # for the runtime's log; the answer is an error object whatever happened
        return _fail(CallFailed(_INTERNAL, f"{type(error).__name__}: {error}"))
    sys.stdout.buffer.write(answer.output)
    sys.stdout.flush()
    return 0


def _fail(failure: CallFailed) -> int:
    sys.stdout.write(jsontext.dumps(dispatch.error_object(failure)) + "\n")
    return 1
