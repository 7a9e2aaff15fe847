"""A CRI client in a screenful: the stubs' descriptor says which calls there are."""

from __future__ import annotations

from typing import Any

import grpc

from crishim.cri.v1 import runtime_pb2 as cri


class Client:
    """`client.Version()` or `client.RunPodSandbox(config=…)`: a method per RPC, its fields as keyword arguments."""

    def __init__(self, endpoint: str, timeout: float = 60) -> None:
        self._channel = grpc.insecure_channel(endpoint)
        self._timeout = timeout
        grpc.channel_ready_future(self._channel).result(timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        for service in cri.DESCRIPTOR.services_by_name.values():
            if name in service.methods_by_name:
                method = service.methods_by_name[name]
                request, response = (getattr(cri, t.name) for t in (method.input_type, method.output_type))
                call = self._channel.unary_unary(
                    f"/{service.full_name}/{name}", request.SerializeToString, response.FromString
                )
                return lambda **fields: call(request(**fields), timeout=self._timeout)
        raise AttributeError(name)

    def close(self) -> None:
        self._channel.close()
