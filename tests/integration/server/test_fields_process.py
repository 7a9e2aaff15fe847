"""What a container's process is and may do, read back from inside it and from /proc."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.runtime.spec.container import LONGEST_STRING
from tests.env.engine import TestEngine
from tests.env.images import busybox
from tests.integration.server.inside import CAPABILITIES, DEFAULT_CAPABILITIES, held, status_of
from tests.integration.server.pods import (
    Pod,
    container_status,
    inspect,
    linux,
    make_container,
    make_pod,
    pod_linux,
    read_log,
)
from tests.integration.server.serving import CALL, CrishimServer
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine


def test_command_arguments_and_environment(server: CrishimServer, engine: TestEngine) -> None:
    image = busybox().with_config(
        Entrypoint=["sh", "-c"], Cmd=["echo the image"], Env=["PATH=/bin", "FROM=image"], WorkingDir="/usr"
    )
    image.load(engine.api, "crishim.test/entry:1")
    spec = pb.ImageSpec(image="crishim.test/entry:1")
    pod = Pod(server)

    def output(**changes: Any) -> str:
        container_id = pod.start(make_container(f"c{len(seen)}", image=spec, **changes))
        status = pod.ended(container_id)
        assert status.exit_code == 0
        assert status.reason == "Completed"
        seen.append(container_id)
        return read_log(Path(status.log_path))

    seen: list[str] = []
    assert output(command=[]) == "the image\n", "both empty: the image's"
    assert output(command=[], args=["echo args; pwd; echo $FROM"]) == "args\n/usr\nimage\n", "the image's entrypoint"
    assert output(command=["echo", "only"]) == "only\n", "not the image's arguments"
    assert output(command=["echo", "$FROM"], args=["a b", ""]) == "$FROM a b \n", "no shell between"
    envs = [
        pb.KeyValue(key="FROM", value=b"request"),
        pb.KeyValue(key="LINES", value=b"two\nlines"),
        pb.KeyValue(key="EQUALS", value=b"a=b"),
        pb.KeyValue(key="UMLAUT", value="Ä€".encode()),
        pb.KeyValue(key="EMPTY", value=b""),
    ]
    command = ["sh", "-c", 'echo "$FROM,$LINES,$EQUALS,$UMLAUT,${EMPTY-unset},$PATH"']
    assert output(command=command, envs=envs) == "request,two\nlines,a=b,Ä€,,/bin\n"
    longest = [pb.KeyValue(key="A", value=b"x" * (LONGEST_STRING - len("A=")))]
    assert output(command=["sh", "-c", "echo ${#A}"], envs=longest) == f"{LONGEST_STRING - 2}\n"
    assert output(command=["pwd"], working_dir="/var/tmp") == "/var/tmp\n"
    assert output(command=["pwd"], working_dir="/made/for/it") == "/made/for/it\n"


def test_image_by_id(server: CrishimServer, engine: TestEngine, busybox_image: str) -> None:
    """A kubelet sends the id as the image and beside it what the user wrote, which is what it wants to be told."""
    image_id = engine.api.call("GET", f"/images/{busybox_image}/json")["Id"]
    pod = Pod(server)
    container_id = pod.create(make_container(image=pb.ImageSpec(image=image_id, user_specified_image=busybox_image)))
    status = container_status(server, container_id)
    assert status.image.image == busybox_image
    assert status.image_ref == status.image_id == image_id


def test_identity_is_given_back(server: CrishimServer, engine: TestEngine) -> None:
    """Labels and annotations exactly as they were, whatever they look like; the conventions' own beside them."""
    labels = {
        "app": "web",
        "annotation.x": "a label",
        "io.kubernetes.docker.type": "mine",
        "io.kubernetes.sandbox.id": "mine",
        "": "empty",
    }
    annotations = {"note": "Ä", "annotation.note": "odd", "long": "x" * 100_000}
    pod = Pod(server, make_pod(server, labels=labels, annotations=annotations))
    container_id = pod.create(make_container(labels=labels, annotations=annotations, attempt=7))
    for told in (pod.status(), container_status(server, container_id)):
        assert dict(told.labels) == labels
        assert dict(told.annotations) == annotations
    (item,) = server.client.ListContainers(pb.ListContainersRequest(), timeout=CALL).containers
    (sandbox,) = server.client.ListPodSandbox(pb.ListPodSandboxRequest(), timeout=CALL).items
    for listed in (item, sandbox):
        assert (dict(listed.labels), dict(listed.annotations)) == (labels, annotations)
    shown = inspect(engine.api, container_id)
    uid = pod.config.metadata.uid
    assert shown["Name"] == f"/k8s_main_{pod.config.metadata.name}_default_{uid}_7"
    assert shown["Config"]["Labels"]["io.kubernetes.docker.type"] == "container"
    assert shown["Config"]["Labels"]["io.kubernetes.sandbox.id"] == pod.id
    assert inspect(engine.api, pod.id)["Name"] == f"/k8s_POD_{pod.config.metadata.name}_default_{uid}_0"


def test_terminal_and_stdin(server: CrishimServer, engine: TestEngine) -> None:
    pod = Pod(server)
    script = "test -t 0 && test -t 1 && echo terminal || echo none; exec sleep 1000"
    kinds = {
        "plain": {},
        "tty": {"tty": True, "stdin": True},
        "once": {"stdin": True, "stdin_once": True},
        "open": {"stdin": True},
    }
    made = {name: pod.start(make_container(name, command=["sh", "-c", script], **k)) for name, k in kinds.items()}
    config = {name: inspect(engine.api, key)["Config"] for name, key in made.items()}
    told = {name: (c["Tty"], c["OpenStdin"], c["StdinOnce"]) for name, c in config.items()}
    assert told == {
        "plain": (False, False, False),
        "tty": (True, True, False),
        "once": (False, True, True),
        "open": (False, True, False),
    }
    logs = {name: Path(container_status(server, key).log_path) for name, key in made.items()}
    until(lambda: all(path.stat().st_size for path in logs.values()), "their output")
    assert {name: read_log(path).strip() for name, path in logs.items()} == {
        "plain": "none",
        "tty": "terminal",
        "once": "none",
        "open": "none",
    }


USERS: dict[str, tuple[dict[str, Any], tuple[int, int, set[int]]]] = {
    "none": ({}, (0, 0, set())),
    "uid": ({"run_as_user": pb.Int64Value(value=1234)}, (1234, 0, set())),
    "uid and gid": (
        {"run_as_user": pb.Int64Value(value=1234), "run_as_group": pb.Int64Value(value=99)},
        (1234, 99, set()),
    ),
    "name": ({"run_as_username": "www-data"}, (33, 33, set())),
    "groups": ({"run_as_user": pb.Int64Value(value=5), "supplemental_groups": [7, 8]}, (5, 0, {7, 8})),
    "root by number": ({"run_as_user": pb.Int64Value(value=0)}, (0, 0, set())),
    "highest": ({"run_as_user": pb.Int64Value(value=(1 << 31) - 1)}, ((1 << 31) - 1, 0, set())),
}


def test_users(server: CrishimServer, engine: TestEngine) -> None:
    pod = Pod(server)
    for number, (name, (context, (uid, gid, groups))) in enumerate(USERS.items()):
        container_id = pod.start(make_container(f"user{number}", linux=linux(**context)))
        status = status_of(engine.api, container_id)
        assert status["Uid"].split() == [str(uid)] * 4, name
        assert status["Gid"].split() == [str(gid)] * 4, name
        assert {int(group) for group in status["Groups"].split()} - {gid} == groups, name
        told = container_status(server, container_id).user.linux
        assert (told.uid, told.gid) == (uid, gid), name
        assert set(told.supplemental_groups) - {gid} == groups, name


def test_capabilities(server: CrishimServer, engine: TestEngine) -> None:
    cases: dict[str, tuple[dict[str, Any], set[str]]] = {
        "default": ({}, DEFAULT_CAPABILITIES),
        "added": (
            {"add_capabilities": ["NET_ADMIN", "CAP_SYS_ADMIN"]},
            DEFAULT_CAPABILITIES | {"NET_ADMIN", "SYS_ADMIN"},
        ),
        "dropped": ({"drop_capabilities": ["kill", "CAP_CHOWN"]}, DEFAULT_CAPABILITIES - {"KILL", "CHOWN"}),
        "all but": ({"add_capabilities": ["KILL"], "drop_capabilities": ["ALL"]}, {"KILL"}),
        "all": ({"add_capabilities": ["ALL"], "drop_capabilities": ["NET_RAW"]}, CAPABILITIES.keys() - {"NET_RAW"}),
        "both": ({"add_capabilities": ["NET_ADMIN"], "drop_capabilities": ["NET_ADMIN"]}, DEFAULT_CAPABILITIES),
    }
    pod = Pod(server)
    found = {}
    for number, (name, (asked, _)) in enumerate(cases.items()):
        context = linux(capabilities=pb.Capability(**asked))
        status = status_of(engine.api, pod.start(make_container(f"c{number}", linux=context)))
        assert held(status["CapPrm"]) == held(status["CapEff"]) == held(status["CapBnd"]), name
        assert held(status["CapAmb"]) == set()
        found[name] = held(status["CapEff"])
    assert found == {name: expected for name, (_, expected) in cases.items()}


def test_privileges(server: CrishimServer, engine: TestEngine, tmp_path: Path) -> None:
    """no_new_privs and seccomp: nothing by default, the engine's, or a file's and no other."""
    profile = tmp_path / "profile.json"
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    kinds = pb.SecurityProfile.ProfileType
    profiles: dict[str, dict[str, Any]] = {
        "nothing": {},
        "unconfined": {"seccomp": pb.SecurityProfile(profile_type=kinds.Unconfined)},
        "default": {"seccomp": pb.SecurityProfile(profile_type=kinds.RuntimeDefault)},
        "file": {"seccomp": pb.SecurityProfile(profile_type=kinds.Localhost, localhost_ref=str(profile))},
        "deprecated": {"seccomp_profile_path": "runtime/default"},
        "typed wins": {
            "seccomp": pb.SecurityProfile(profile_type=kinds.Unconfined),
            "seccomp_profile_path": "runtime/default",
        },
    }
    pod = Pod(server)
    script = (
        "grep Seccomp: /proc/self/status; mkdir /tmp/a 2>/dev/null && echo made;"
        " unshare -U true 2>/dev/null && echo unshared"
    )
    found = {
        name: pod.say(f"{script}; true", linux=linux(**context)).replace("Seccomp:\t", "").split()
        for name, context in profiles.items()
    }
    assert found["nothing"] == found["unconfined"] == ["0", "made", "unshared"]
    assert found["default"] == found["deprecated"] == ["2", "made"], "the default denies a call"
    assert found["file"][0] == "2"
    assert "made" not in found["file"]
    assert found["typed wins"][0] == "0"
    assert status_of(engine.api, pod.start(make_container("plain")))["NoNewPrivs"] == "0"
    strict = pod.start(make_container("strict", linux=linux(no_new_privs=True)))
    assert status_of(engine.api, strict)["NoNewPrivs"] == "1"


def test_privileged(server: CrishimServer, engine: TestEngine) -> None:
    """Everything, in a pod that is privileged; what else is asked of security does not count."""
    pod = Pod(server, make_pod(server, linux=pod_linux(privileged=True)))
    context = linux(
        privileged=True,
        seccomp=pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault),
        capabilities=pb.Capability(drop_capabilities=["ALL"]),
        masked_paths=["/proc/meminfo"],
        readonly_paths=["/proc/sys"],
    )
    container_id = pod.start(make_container("root", linux=context))
    status = status_of(engine.api, container_id)
    assert held(status["CapEff"]) == CAPABILITIES.keys()
    assert status["Seccomp"] == "0"
    said = pod.say(
        "ls /dev; grep -q MemTotal /proc/meminfo && echo seen; test -w /proc/sys/net && echo writable", linux=context
    )
    assert {"kmsg", "seen", "writable"} & set(said.split()) >= {"seen", "writable"}
    plain = pod.start(make_container("plain"))
    assert held(status_of(engine.api, plain)["CapEff"]) == DEFAULT_CAPABILITIES


def test_masked_and_readonly(server: CrishimServer) -> None:
    """Paths as given and no others; none given is none at all (trap 29)."""
    pod = Pod(server)
    script = (
        "head -c3 /proc/meminfo; echo; grep -c ' /proc/[a-z]' /proc/mounts;"
        " grep -q ' /proc/sys proc ro' /proc/mounts && echo ro; touch /x 2>/dev/null && echo w; true"
    )
    assert pod.say(script).split() == ["Mem", "0", "w"]
    given = pod.say(
        script,
        linux=linux(masked_paths=["/proc/meminfo"], readonly_paths=["/proc/sys"], readonly_rootfs=True),
    ).split()
    assert given == ["2", "ro"]


def test_stop_signal(server: CrishimServer, engine: TestEngine) -> None:
    """The request's, else the image's, else TERM: told, and sent."""
    busybox().with_config(StopSignal="SIGUSR1").load(engine.api, "crishim.test/usr1:1")
    usr1 = pb.ImageSpec(image="crishim.test/usr1:1")
    traps = 'for s in TERM USR1 USR2 HUP; do trap "echo $s; exit 0" $s; done; echo up; while :; do sleep 0.05; done'
    cases: dict[str, tuple[dict[str, Any], int]] = {
        "TERM": ({}, pb.SIGNAL_SIGTERM),
        "USR1": ({"image": usr1}, pb.SIGNAL_SIGUSR1),
        "HUP": ({"image": usr1, "stop_signal": pb.SIGNAL_SIGHUP}, pb.SIGNAL_SIGHUP),
    }
    pod = Pod(server)
    for number, (word, (changes, told)) in enumerate(cases.items()):
        config: dict[str, Any] = {"command": ["sh", "-c", traps], **changes}
        container_id = pod.start(make_container(f"stop{number}", **config))
        status = container_status(server, container_id)
        assert status.stop_signal == told
        log = Path(status.log_path)
        until(partial(_has_said, log, "up"), "traps")
        server.client.StopContainer(pb.StopContainerRequest(container_id=container_id, timeout=20), timeout=CALL)
        assert read_log(log).split() == ["up", word]
        assert container_status(server, container_id).exit_code == 0


def _has_said(log: Path, word: str) -> bool:
    return word in read_log(log)
