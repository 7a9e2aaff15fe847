"""What an engine's API cannot say, said to the OCI runtime: pure functions from one configuration to another.

A fronted runtime shows the server each configuration (`config.json`; for an exec the process) before the real runtime
reads it. What is to become of it is a `Wish` (`wish.py`), which `make_wish` (`asked.py`) derives from a container's
record alone; `rewrite.py` carries it out, one module per concern. Nothing here does I/O, and nothing but what is wished
changes. Applied twice is applied once.

The names are those of the OCI runtime specification (config.md, config-linux.md).
"""
