"""crishim: Kubernetes' Container Runtime Interface (CRI v1) on a Docker Engine.

The package is the server, one room (subpackage) for each concern. gRPC, Docker's JSON, netlink and HTTP stop at its
edges (`rpc`, `engine`, `network`, `streaming`); between them travel the plain values of `crishim.model` and the errors
of `crishim.errors`. This module stays empty of imports: importing a room must not load the others.
"""

__version__ = "0.1.0"
