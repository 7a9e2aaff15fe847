"""What the interfaces of crishim promise, as checks to run on any implementation, and help for harnesses.

For: third parties' backends and test suites, and our own tests. Not for: serving; nothing of the server imports this.
"""
