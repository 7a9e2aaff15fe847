"""The program that the engine starts: source, executables, and how they are built."""
