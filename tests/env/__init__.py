"""The test world: everything a test of crishim needs besides crishim.

Namespaces of its own (``world``), Docker Engines (``engine``), registries (``registry``), images made on the spot
(``images``) and the check that nothing is left behind (``tidiness``).  The fixtures in ``tests/conftest.py`` are the
way to use them.  Standard library only: parts of it run where nothing else is installed.  Not here: anything that
knows CRI.
"""
