"""Labels hold the identity: what was asked comes back exactly, and what others wrote is understood."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crishim.model import (
    ContainerConfig,
    ContainerMetadata,
    DNSConfig,
    ImageSpec,
    KeyValue,
    LinuxPodSandboxConfig,
    Mount,
    PodSandboxConfig,
    PodSandboxMetadata,
    PortMapping,
    Protocol,
)
from crishim.runtime import labels

POD = PodSandboxMetadata(name="web", uid="u-1", namespace="default", attempt=3)
OURS = (labels.TYPE, labels.SANDBOX_ID, labels.LOG_PATH, labels.CONFIG, labels.HANDLER, "io.kubernetes.pod.name")
MAP = st.dictionaries(
    st.one_of(st.text(), st.sampled_from(OURS), st.text().map(lambda key: labels.ANNOTATION + key)), st.text()
)


@settings(max_examples=50, deadline=None)
@given(user=MAP, annotations=MAP)
def test_a_sandboxs_request_comes_back_exactly(user: dict[str, str], annotations: dict[str, str]) -> None:
    config = PodSandboxConfig(
        metadata=POD,
        hostname="h",
        dns_config=DNSConfig(servers=("1.1.1.1",)),
        port_mappings=(PortMapping(protocol=Protocol.UDP, container_port=53, host_port=53),),
        labels=user,
        annotations=annotations,
        linux=LinuxPodSandboxConfig(sysctls={"net.ipv4.ip_forward": "1"}),
    )
    made = labels.make_sandbox_labels(config, "runc")
    assert labels.parse_sandbox_request(made) == config
    assert made[labels.TYPE] == labels.SANDBOX
    assert made[labels.HANDLER] == "runc"
    assert (made["io.kubernetes.pod.uid"], made["io.kubernetes.container.name"]) == ("u-1", "POD")


@settings(max_examples=50, deadline=None)
@given(user=MAP, annotations=MAP)
def test_a_containers_request_comes_back_without_its_environment(
    user: dict[str, str], annotations: dict[str, str]
) -> None:
    config = ContainerConfig(
        metadata=ContainerMetadata(name="main", attempt=1),
        image=ImageSpec(image="sha256:1", user_specified_image="busybox:1"),
        command=("sh",),
        mounts=(Mount(container_path="/a", host_path="/b"),),
        labels=user,
        annotations=annotations,
    )
    secret = replace(config, envs=(KeyValue(key="PASSWORD", value="secret"),))
    made = labels.make_container_labels(secret, "5a", "/var/log/x.log")
    assert labels.parse_container_config(made, "whatever", "busybox") == config
    assert made == labels.make_container_labels(config, "5a", "/var/log/x.log")
    assert (made[labels.TYPE], made[labels.SANDBOX_ID]) == (labels.CONTAINER, "5a")
    assert made[labels.LOG_PATH] == "/var/log/x.log"


CONVENTION = {
    labels.TYPE: labels.SANDBOX,
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "default",
    "io.kubernetes.pod.uid": "u-1",
    "io.kubernetes.container.name": "POD",
    "app": "web",
    "annotation.note": "n",
}


@pytest.mark.parametrize("spoiled", [{}, {labels.CONFIG: "{"}, {labels.CONFIG: "{}"}, {labels.CONFIG: '{"x": 1}'}])
def test_the_convention_tells_of_a_sandbox(spoiled: dict[str, str]) -> None:
    given_labels = CONVENTION | spoiled
    assert labels.parse_sandbox_request(given_labels) is None
    config = labels.parse_sandbox_convention(given_labels, "/k8s_POD_web_default_u-1_3")
    assert config is not None
    assert config.metadata == POD
    assert config.annotations == {"note": "n"}
    assert config.labels == {"app": "web"} | labels.make_pod_labels(POD)


def test_a_request_without_a_pod_is_none() -> None:
    made = labels.make_sandbox_labels(PodSandboxConfig(metadata=POD), "")
    for metadata in ({"name": "x"}, {"uid": "x"}):
        made[labels.CONFIG] = f'{{"metadata": {metadata}}}'.replace("'", '"')
        assert labels.parse_sandbox_request(made) is None


@pytest.mark.parametrize(
    ("given_labels", "name", "pod"),
    [
        ({}, "k8s_POD_web_default_u-1_0", ("web", "default", "u-1")),
        ({}, "/k8s_main_web_default_u-1_0_5a5a", ("web", "default", "u-1")),
        ({"io.kubernetes.pod.name": "x"}, "k8s_POD_web_default_u-1_0", ("x", "default", "u-1")),
        (CONVENTION, "stranger", ("web", "default", "u-1")),
        ({}, "stranger", None),
        ({}, "k8s_POD_web_default_u-1", None),
        ({}, "k8s_POD_web_default_u-1_x", None),
        ({"io.kubernetes.pod.name": "x"}, "", None),
        ({"io.kubernetes.pod.uid": "x"}, "", None),
    ],
)
def test_whose_it_is(given_labels: dict[str, str], name: str, pod: tuple[str, str, str] | None) -> None:
    found = labels.parse_pod(given_labels, name)
    assert (found and (found.name, found.namespace, found.uid)) == pod


@pytest.mark.parametrize(
    ("given_labels", "name", "metadata"),
    [
        ({"io.kubernetes.container.name": "main"}, "x", ContainerMetadata(name="main")),
        ({}, "k8s_main_web_default_u-1_4", ContainerMetadata(name="main", attempt=4)),
        ({labels.CONFIG: "{}"}, "k8s_main_web_default_u-1_4", ContainerMetadata(name="main", attempt=4)),
        ({}, "stranger", None),
    ],
)
def test_what_a_container_of_another_shim_is(
    given_labels: dict[str, str], name: str, metadata: ContainerMetadata | None
) -> None:
    config = labels.parse_container_config(given_labels | {labels.LOG_PATH: "/x", "app": "a"}, name, "busybox")
    assert (config and config.metadata) == metadata
    if config is not None:
        assert config.labels == {k: v for k, v in given_labels.items() if k != labels.CONFIG} | {"app": "a"}
        assert config.image == ImageSpec(image="busybox")
