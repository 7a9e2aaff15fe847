from __future__ import annotations

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.model import (
    ContainerConfig,
    HugepageLimit,
    IDMapping,
    ImageSpec,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
    Mount,
    MountPropagation,
    NamespaceMode,
    NamespaceOption,
    SecurityProfile,
    Signal,
    UserNamespace,
)
from crishim.rpc.decode import decode
from crishim.rpc.encode import encode


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (NamespaceOption(), pb.NamespaceOption()),
        (
            NamespaceOption(
                network=NamespaceMode.NODE,
                pid=NamespaceMode.TARGET,
                target_id="c1",
                userns_options=UserNamespace(
                    mode=NamespaceMode.POD, uids=(IDMapping(host_id=65536, length=65536),), gids=(IDMapping(length=1),)
                ),
            ),
            pb.NamespaceOption(),
        ),
        (
            Mount(
                container_path="/data",
                host_path="/srv",
                readonly=True,
                propagation=MountPropagation.PROPAGATION_BIDIRECTIONAL,
                uid_mappings=(IDMapping(host_id=1, container_id=2, length=3),),
                gid_mappings=(IDMapping(host_id=4, container_id=5, length=6),),
                mount_options=("noexec", "nodev"),
                image=ImageSpec(image="busybox", annotations={"a": "b"}),
            ),
            pb.Mount(),
        ),
        (
            LinuxContainerResources(
                cpu_quota=-1, hugepage_limits=(HugepageLimit(page_size="2MB", limit=7),), unified={"memory.high": "1"}
            ),
            pb.LinuxContainerResources(),
        ),
        (
            ContainerConfig(
                image=ImageSpec(),
                command=("sh", "-c"),
                labels={"": ""},
                stop_signal=Signal.SIGNAL_SIGRTMINPLUS3,
                linux=LinuxContainerConfig(
                    security_context=LinuxContainerSecurityContext(
                        run_as_user=0, supplemental_groups=(0, 5), seccomp=SecurityProfile()
                    )
                ),
            ),
            pb.ContainerConfig(),
        ),
    ],
)
def test_what_is_encoded_is_decoded_to_the_same(value: object, message: pb.Mount) -> None:
    wire = encode(value, message).SerializeToString()
    assert decode(type(message).FromString(wire), type(value)) == value


def test_absent_empty_and_zero_stay_apart() -> None:
    absent = encode(LinuxContainerSecurityContext(), pb.LinuxContainerSecurityContext())
    zero = encode(
        LinuxContainerSecurityContext(run_as_user=0, seccomp=SecurityProfile()), pb.LinuxContainerSecurityContext()
    )
    assert not absent.HasField("run_as_user")
    assert not absent.HasField("seccomp")
    assert zero.HasField("run_as_user")
    assert zero.HasField("seccomp")
