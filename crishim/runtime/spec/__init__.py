"""From what CRI asks to what an engine is told: pure functions, one module per concern, errors with the field's path.

Nothing here does I/O but looking at the files that a request names (devices, seccomp profiles, mount sources). A field
is carried out or refused by name, never dropped.
"""
