"""An engine whose daemon.json changes everything that it can: nothing of it reaches a pod (trap 39)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env.engine import ALTERNATIVE_RUNTIME, TestEngine
from tests.env.images import BUSYBOX_REF, busybox
from tests.integration.server.fullest import check_fullest, check_plain, check_told
from tests.integration.server.pods import Pod, container_status, inspect, linux, make_container, pid_of, read_log
from tests.integration.server.residue import assert_nothing_left
from tests.integration.server.serving import CrishimServer

pytestmark = pytest.mark.engine


@pytest.fixture
def hostile(new_engine: Callable[..., TestEngine], tmp_path: Path) -> TestEngine:
    """An engine with every default changed that daemon.json can change."""
    profile = tmp_path / "daemons-profile.json"
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    config: dict[str, Any] = {
        "init": True,
        "no-new-privileges": True,
        "default-ipc-mode": "private",
        "default-shm-size": "1m",
        "default-cgroupns-mode": "private",
        "default-ulimits": {"nofile": {"Name": "nofile", "Soft": 500, "Hard": 600}},
        "seccomp-profile": str(profile),
        "log-driver": "json-file",
        "log-opts": {
            "mode": "non-blocking",
            "max-size": "1k",
            "tag": "{{.Name}}",
            "labels": "app",
        },
        "dns": ["192.0.2.1"],
        "dns-search": ["daemon.example"],
        "labels": ["role=hostile"],
        "default-runtime": ALTERNATIVE_RUNTIME,
    }
    made = new_engine(config=config)
    busybox().load(made.api, BUSYBOX_REF)
    return made


def test_nothing_leaks_in(new_server: Callable[..., CrishimServer], hostile: TestEngine, tmp_path: Path) -> None:
    server = new_server(hostile.url, flags=["--pids-limit=4321", "--shm-size=32MiB"])
    server.start()
    pod = Pod(server)
    check_plain(pod, hostile.api, processes="4321", shm_size=32 << 20)
    check_told(pod, *check_fullest(pod, hostile.api, tmp_path / "asked"))
    container_id = pod.start(make_container(labels={"app": "web"}))
    for key in (pod.id, container_id):
        pid = pid_of(hostile.api, key)
        first = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        assert "init" not in first, "an init of the engine's runs in front"
        assert "NoNewPrivs:\t0" in Path(f"/proc/{pid}/status").read_text()
        host = inspect(hostile.api, key)["HostConfig"]
        assert host["Init"] is False
        assert host["Runtime"] == ALTERNATIVE_RUNTIME, "the handler without a name is the engine's default"
        assert host["RestartPolicy"]["Name"] == "no"
        log = host["LogConfig"]
        assert (log["Type"], log["Config"]["mode"]) == ("json-file", "blocking")
        assert int(log["Config"]["max-size"]) >= 1 << 20
        assert "tag" not in log["Config"] or log["Config"]["tag"] == ""
    assert inspect(hostile.api, pod.id)["HostConfig"]["IpcMode"] == "shareable"
    assert pod.status().runtime_handler == ""

    pod.say("echo shared >/dev/shm/note")
    assert pod.say("cat /dev/shm/note; df -k /dev/shm | tail -1 | awk '{print $2}'").split() == [
        "shared",
        str(32 << 10),
    ]
    unconfined = linux(seccomp=pb.SecurityProfile(profile_type=pb.SecurityProfile.Unconfined))
    assert pod.say("grep Seccomp: /proc/self/status; mkdir /tmp/a && echo made", linux=unconfined).split() == [
        *("Seccomp:", "0"),
        "made",
    ]
    lines = 20_000
    loud = pod.start(make_container("loud", command=["sh", "-c", f"seq 1 {lines}"]))
    assert pod.ended(loud).exit_code == 0
    assert read_log(Path(container_status(server, loud).log_path)).splitlines()[-1] == str(lines)
    assert len(read_log(Path(container_status(server, loud).log_path)).splitlines()) == lines, "lines were dropped"

    server.remove_all()
    assert_nothing_left(server, hostile.api)
