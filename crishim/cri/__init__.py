"""The Python stubs of the CRI wire contract, generated from `api/` by `make gen`. Nothing here is written by hand.

Only `crishim.rpc` and clients import it: inside the server requests are the plain values of `crishim.model`.
"""
