"""Pieces of asyncio that know nothing of containers: undo, locks, owned tasks, shared work, timed steps.

Not for: anything that names a pod, an engine or a message.
"""
