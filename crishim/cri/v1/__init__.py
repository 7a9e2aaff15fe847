"""CRI version 1: `runtime_pb2` holds the messages, and in `DESCRIPTOR` the services with all their methods."""
