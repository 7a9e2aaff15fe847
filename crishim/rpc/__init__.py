"""The gRPC edge: the socket, the 43 methods, and what turns our values and errors into the wire's.

Requests become values of `crishim.model` here and nowhere else, answers become protobuf messages here and nowhere else,
and a failure becomes a gRPC status here and nowhere else. Not for: deciding anything about pods, containers or images;
the handlers decode, call one verb and encode.
"""

from __future__ import annotations

import os

# grpc reads this when it is first imported. Its fork handlers would act in every child process that is started while
# the server runs; we never fork without exec, so they can only do harm.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
