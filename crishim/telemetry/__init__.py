"""What the server tells of itself on a port of its own: metrics for Prometheus, `/healthz` and `/readyz`.

Here: what is counted for that alone (durations, the loop's lag), how the plain counters of other rooms become metrics,
and the small HTTP server. Not here: the metrics of pods (`crishim.stats`). Only the composition root imports this room,
and only when a port was asked for: a server without one pays nothing.
"""
