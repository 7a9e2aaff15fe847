"""crishim as a systemd service: the unit, writing it, and telling systemd how the server is.

Not for: serving; nothing here knows CRI.
"""
