"""What crishim costs, measured: `make bench` writes docs/performance.json and docs/performance.md.

No test asserts a speed; medians of one run are compared side by side, because machines are noisy.
"""
