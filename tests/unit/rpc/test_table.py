from __future__ import annotations

import inspect
import typing

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.chunks import Stream
from crishim.rpc.table import TABLE


def test_the_table_is_the_descriptor() -> None:
    services = pb.DESCRIPTOR.services_by_name.values()
    described = {method.name: service.full_name for service in services for method in service.methods}
    assert {name: service for name, (service, _) in TABLE.items()} == described
    assert len(TABLE) == 43


def test_each_handler_takes_the_request_and_gives_the_response_of_its_rpc() -> None:
    for service in pb.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            _, handler = TABLE[method.name]
            if handler is None:
                continue
            hints = typing.get_type_hints(handler)
            assert inspect.iscoroutinefunction(handler)
            assert hints["request"].__name__ == method.input_type.name
            if method.server_streaming:
                assert hints["return"] is Stream
            else:
                assert hints["return"] is bytes or hints["return"].__name__ == method.output_type.name
