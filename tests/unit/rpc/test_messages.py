from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crishim.checkpoint.record import Phase
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.engine.values import ContainerPhase, EngineImage, EngineResources
from crishim.model import (
    IDMapping,
    ImageSpec,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    Mount,
    NamespaceMode,
    NamespaceOption,
    Signal,
    UserNamespace,
)
from crishim.network.api import Attached
from crishim.rpc import messages
from crishim.runtime.objects import Container, ContainerUser, Sandbox

MakeSandbox = Callable[..., Sandbox]
MakeContainer = Callable[..., Container]


def with_namespaces(options: NamespaceOption) -> dict[str, Any]:
    context = LinuxSandboxSecurityContext(namespace_options=options)
    return {"linux": LinuxPodSandboxConfig(security_context=context)}


def test_a_sandbox_tells_what_was_asked(make_sandbox: MakeSandbox) -> None:
    labels, annotations = {"annotation.x": "1", "io.kubernetes.docker.type": "mine"}, {"": "empty key"}
    sandbox = make_sandbox(config={"labels": labels, "annotations": annotations}, runtime_handler="kata")
    for message in (messages.make_sandbox(sandbox), messages.make_sandbox_status(sandbox)):
        assert message.id == sandbox.id
        assert message.metadata == pb.PodSandboxMetadata(name="web", uid="uid-1", namespace="default", attempt=2)
        assert message.state == pb.SANDBOX_READY
        assert message.created_at == 1_000
        assert dict(message.labels) == labels
        assert dict(message.annotations) == annotations
        assert message.runtime_handler == "kata"


@pytest.mark.parametrize(
    ("record", "config"),
    [
        ({"network": Attached("none")}, {}),
        ({"network": None}, {}),
        ({"network": Attached("cni", ips=("10.0.0.2",)), "phase": Phase.STOPPED}, {}),
        ({"network": Attached("cni", ips=("10.0.0.2",))}, with_namespaces(NamespaceOption(network=NamespaceMode.NODE))),
    ],
    ids=["no address", "no attachment", "not ready", "host network"],
)
def test_network_is_unset_where_there_is_no_address(
    make_sandbox: MakeSandbox, record: dict[str, Any], config: dict[str, Any]
) -> None:
    assert not messages.make_sandbox_status(make_sandbox(config=config, **record)).HasField("network")


def test_the_first_address_is_primary(make_sandbox: MakeSandbox) -> None:
    network = messages.make_sandbox_status(
        make_sandbox(network=Attached("cni", ips=("10.0.0.2", "fd00::2", "10.1.0.2")))
    ).network
    assert network.ip == "10.0.0.2"
    assert [extra.ip for extra in network.additional_ips] == ["fd00::2", "10.1.0.2"]


@pytest.mark.parametrize(
    "options",
    [
        None,
        NamespaceOption(),
        NamespaceOption(network=NamespaceMode.NODE, pid=NamespaceMode.CONTAINER, ipc=NamespaceMode.NODE),
        NamespaceOption(userns_options=UserNamespace(mode=NamespaceMode.NODE)),
        NamespaceOption(userns_options=UserNamespace(uids=(IDMapping(length=1),), gids=(IDMapping(length=1),))),
    ],
)
def test_namespace_options_are_always_there_as_asked(
    make_sandbox: MakeSandbox, options: NamespaceOption | None
) -> None:
    status = messages.make_sandbox_status(make_sandbox(config=with_namespaces(options) if options else {}))
    told = pb.PodSandboxStatus.FromString(status.SerializeToString()).linux.namespaces
    options = options or NamespaceOption()
    assert told.HasField("options")
    assert [told.options.network, told.options.pid, told.options.ipc] == [
        int(options.network),
        options.pid,
        options.ipc,
    ]
    assert told.options.HasField("userns_options") == (options.userns_options is not None)
    assert len(told.options.userns_options.uids) == len(options.userns_options.uids if options.userns_options else ())


def test_a_container_shows_one_image_id_everywhere_and_the_name_that_was_asked(make_container: MakeContainer) -> None:
    image_id = "sha256:" + "1a" * 32
    container = make_container(config={"image": ImageSpec(image=image_id, user_specified_image="busybox:1.36")})
    listed, status = messages.make_container(container), messages.make_container_status(container)
    assert listed.image_ref == listed.image_id == status.image_ref == status.image_id == image_id
    assert listed.image.image == status.image.image == "busybox:1.36"
    assert listed.pod_sandbox_id == container.sandbox_id


def test_mounts_come_back_as_given(make_container: MakeContainer) -> None:
    asked = (
        Mount(container_path="/dev/termination-log", host_path="/var/lib/kubelet/x"),
        Mount(container_path="/ro", host_path="/srv", readonly=True, selinux_relabel=True),
    )
    told = messages.make_container_status(make_container(config={"mounts": asked})).mounts
    assert [(m.container_path, m.host_path, m.readonly, m.selinux_relabel) for m in told] == [
        ("/dev/termination-log", "/var/lib/kubelet/x", False, False),
        ("/ro", "/srv", True, True),
    ]


def test_the_log_path_is_ours_or_else_the_engines(make_container: MakeContainer) -> None:
    live = {"log_path": "/var/lib/docker/c-json.log"}
    asked = make_container(live=live, log_path="/var/log/pods/p/main/1.log")
    assert messages.make_container_status(asked).log_path == "/var/log/pods/p/main/1.log"
    assert messages.make_container_status(make_container(live=live)).log_path == "/var/lib/docker/c-json.log"


@pytest.mark.parametrize(
    ("asked", "image", "effective"),
    [
        (Signal.SIGNAL_SIGUSR1, "SIGQUIT", pb.SIGNAL_SIGUSR1),
        (Signal.SIGNAL_RUNTIME_DEFAULT, "SIGQUIT", pb.SIGNAL_SIGQUIT),
        (Signal.SIGNAL_RUNTIME_DEFAULT, "37", pb.SIGNAL_SIGRTMINPLUS3),
        (Signal.SIGNAL_RUNTIME_DEFAULT, "", pb.SIGNAL_SIGTERM),
        (Signal.SIGNAL_RUNTIME_DEFAULT, "nonsense", pb.SIGNAL_SIGTERM),
    ],
)
def test_the_stop_signal_is_the_effective_one(
    make_container: MakeContainer, asked: Signal, image: str, effective: pb.Signal.ValueType
) -> None:
    container = make_container(config={"stop_signal": asked}, live={"stop_signal": image})
    assert messages.make_container_status(container).stop_signal == effective


@pytest.mark.parametrize(
    ("live", "told"),
    [
        (EngineResources(), pb.LinuxContainerResources(cpu_shares=1024)),
        (
            EngineResources(cpu_shares=0, cpu_quota=0, cpu_period=0, memory=0),
            pb.LinuxContainerResources(cpu_shares=1024),
        ),
        (EngineResources(cpu_quota=-1, memory_swap=-1, cpu_shares=2), pb.LinuxContainerResources(cpu_shares=2)),
        (
            EngineResources(cpu_quota=50_000, memory=1 << 20, memory_swap=1 << 20, cpuset_cpus="0-1"),
            pb.LinuxContainerResources(
                cpu_shares=1024,
                cpu_quota=50_000,
                cpu_period=100_000,
                memory_limit_in_bytes=1 << 20,
                memory_swap_limit_in_bytes=1 << 20,
                cpuset_cpus="0-1",
            ),
        ),
        (
            EngineResources(cpu_quota=1_000, cpu_period=20_000),
            pb.LinuxContainerResources(cpu_shares=1024, cpu_quota=1_000, cpu_period=20_000),
        ),
    ],
    ids=["nothing said", "zeroes", "unlimited", "limits", "own period"],
)
def test_resources_are_what_is_in_force(
    make_container: MakeContainer, live: EngineResources, told: pb.LinuxContainerResources
) -> None:
    container = make_container(live={"resources": live, "oom_score_adj": -5})
    told.oom_score_adj = -5
    assert messages.make_container_status(container).resources.linux == told


def test_the_user_is_told_when_it_is_known(make_container: MakeContainer) -> None:
    assert not messages.make_container_status(make_container()).HasField("user")
    known = messages.make_container_status(make_container(user=ContainerUser(0, 0, ()))).user
    assert known.HasField("linux")
    known = messages.make_container_status(make_container(user=ContainerUser(1000, 100, (100, 7)))).user
    assert (known.linux.uid, known.linux.gid, list(known.linux.supplemental_groups)) == (1000, 100, [100, 7])


def test_an_exit_is_told_with_reason_and_times(make_container: MakeContainer) -> None:
    ended = {"phase": ContainerPhase.EXITED, "exit_code": 3, "finished_at": 9_000}
    status = messages.make_container_status(make_container(live=ended))
    assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, 3, "Error")
    assert (status.created_at, status.started_at, status.finished_at) == (1_000, 2_000, 9_000)


def test_a_failed_start_is_exited_in_list_and_status_alike(make_container: MakeContainer) -> None:
    failed = {"phase": ContainerPhase.CREATED, "exit_code": 127, "error": "no such file", "started_at": 0}
    container = make_container(live=failed)
    status = messages.make_container_status(container)
    assert messages.make_container(container).state == status.state == pb.CONTAINER_EXITED
    assert (status.reason, status.message, status.exit_code) == ("ContainerCannotRun", "no such file", 127)
    assert status.finished_at >= status.started_at >= status.created_at > 0


@pytest.mark.parametrize(
    ("user", "uid", "username"), [("", 0, ""), ("1000:1000", 1000, ""), ("www-data:www", None, "www-data")]
)
def test_an_image_has_a_uid_or_a_username(user: str, uid: int | None, username: str) -> None:
    image = messages.make_image(EngineImage(id="sha256:1", size=5, user=user), pinned=False)
    assert image.HasField("uid") == (uid is not None)
    assert image.uid.value == (uid or 0)
    assert image.username == username


def test_an_image_tells_its_names_and_whether_it_is_pinned() -> None:
    image = messages.make_image(EngineImage(id="sha256:1", size=7, tags=("a:1",), digests=("a@sha256:2",)), pinned=True)
    assert (list(image.repo_tags), list(image.repo_digests), image.size) == (["a:1"], ["a@sha256:2"], 7)
    assert image.pinned
    assert not messages.make_image(EngineImage(id="sha256:1", size=7), pinned=False).pinned
