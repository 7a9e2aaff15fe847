"""Making an engine know the front, and proving it: `commands` are the three verbs of the command line."""
