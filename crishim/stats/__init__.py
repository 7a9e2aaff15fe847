"""What pods and containers cost: read from the kernel's own files, never from the engine.

Here: where a container's figures lie (cgroups of both versions, /proc, its writable layer), how they are read, and what
the verbs of statistics and metrics tell of them. Everything that reads files runs in a thread, one hop per call. Not
here: messages of the wire (`crishim.rpc`), and anything that changes a container.
"""
