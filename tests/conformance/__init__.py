"""crishim judged by Kubernetes' own tools: critest and crictl of cri-tools, on several generations of Docker Engine.

``make matrix`` is the way to use it; README.md tells what is where.  Not here: the test world and its engines
(``tests/env``), and crishim's own contract checks (``crishim/testing``).
"""
