"""The engine's room: one interface, the Docker Engine behind it, and a simulated engine that ships.

For: turning engine calls into values and errors of ours. Not for: knowing what a pod is; nothing here reads CRI fields,
labels' meaning, checkpoints or networks. The only room that imports aiodocker and aiohttp's client.
"""
