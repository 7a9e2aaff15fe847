"""Pages of documentation that are made from the code: each module prints one, and a test compares it with `docs/`.

Not imported by the server.
"""
