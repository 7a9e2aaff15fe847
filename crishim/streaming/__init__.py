"""Exec, attach and port-forward as clients see them: HTTP upgrade, SPDY/3.1, WebSocket, the sessions in between.

`api` is all that the wire of CRI needs: it gives a URL for something prepared. `server` listens and hands connections
to sessions; the protocols are state machines without I/O (`spdy`, `websocket`, `channels`, `upgrade`), which take bytes
and give events and bytes. What is at a session's other end comes in through `crishim.model.streams`: nothing here knows
an engine or a pod.
"""
