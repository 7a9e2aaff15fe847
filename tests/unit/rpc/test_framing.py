from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.framing import field, number, varint

EDGES = (0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152)


@pytest.mark.parametrize("length", EDGES)
def test_a_field_is_what_protobuf_writes(length: int) -> None:
    text = "x" * length
    ours = field(pb.Image.ID_FIELD_NUMBER, text.encode())
    assert pb.Image.FromString(ours).id == text
    assert ours == pb.Image(id=text).SerializeToString() or length == 0


@given(st.lists(st.text(max_size=300), max_size=20))
def test_protobuf_reads_a_joined_list_as_its_own(ids: list[str]) -> None:
    joined = b"".join(
        field(pb.ListContainersResponse.CONTAINERS_FIELD_NUMBER, pb.Container(id=i).SerializeToString()) for i in ids
    )
    assert joined == pb.ListContainersResponse(containers=[pb.Container(id=i) for i in ids]).SerializeToString()


def test_a_field_number_above_15_takes_two_bytes() -> None:
    ours = field(pb.ImageSpec.USER_SPECIFIED_IMAGE_FIELD_NUMBER, b"busybox")
    assert ours == pb.ImageSpec(user_specified_image="busybox").SerializeToString()


@pytest.mark.parametrize("value", [*EDGES, 2**63 - 1])
def test_a_number_is_what_protobuf_reads(value: int) -> None:
    assert pb.CpuUsage.FromString(number(pb.CpuUsage.TIMESTAMP_FIELD_NUMBER, value)).timestamp == value


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        varint(-1)
