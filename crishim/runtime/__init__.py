"""Pods and containers: one module per CRI verb, noun first, so that the folder listing is the API.

Each verb is a function whose first argument is the `Runtime` (its collaborators, runtime/core.py); it takes and returns
plain values and raises the family of `crishim.errors`. Not for: gRPC, Docker JSON, netlink, and image verbs
(`crishim.images`).
"""
