"""Items joined to messages of a bounded size."""

from __future__ import annotations

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.chunks import CHUNK, ITEMS, chunks, frame_all, stream_items


@pytest.mark.parametrize(
    ("lengths", "joined"),
    [
        ([], []),
        ([3], [3]),
        ([3, 3, 4], [10]),
        ([3, 3, 5], [6, 5]),
        ([30], [30]),
        ([3, 30, 3], [3, 30, 3]),
        ([10, 10], [10, 10]),
    ],
)
def test_sizes(lengths: list[int], joined: list[int]) -> None:
    items = [bytes([number]) * length for number, length in enumerate(lengths)]
    made = list(chunks(items, 10))
    assert [len(chunk) for chunk in made] == joined
    assert b"".join(made) == b"".join(items)


async def test_messages_hold_all_items_once() -> None:
    ids = [f"{number:0>1000}" for number in range(1000)]
    items = frame_all(pb.Container(id=i).SerializeToString() for i in ids)
    messages = [chunk async for chunk in stream_items(items)]
    assert 3 < len(messages) < 6
    assert all(len(message) <= CHUNK for message in messages)
    told = [c.id for message in messages for c in pb.StreamContainersResponse.FromString(message).containers]
    assert told == ids


def test_the_field_is_the_same_in_all_streamed_lists() -> None:
    services = pb.DESCRIPTOR.services_by_name.values()
    lists = [m.output_type for s in services for m in s.methods if m.server_streaming and m.name.startswith("Stream")]
    assert len(lists) == 6
    for message in lists:
        (field,) = message.fields
        assert (field.number, field.is_repeated) == (ITEMS, True)
