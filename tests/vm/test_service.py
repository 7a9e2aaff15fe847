"""crishim as a systemd service: the unit, restarts of crishim and of the engine under running pods."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.vm.guest import wait_for
from tests.vm.image import HOME, GuestImage
from tests.vm.node import Node, Pod


def show(node: Node, name: str) -> str:
    """A property of the unit."""
    return node.guest.run(f"systemctl show crishim --property={name} --value").strip()


def ip_of(pod: Pod) -> str:
    """The pod's address as crishim tells it."""
    return str(pod.node.call("PodSandboxStatus", pod_sandbox_id=pod.id).status.network.ip)


def test_the_unit_is_active_once_it_serves(node: Node) -> None:
    assert show(node, "Type") == "notify"
    assert (show(node, "ActiveState"), show(node, "SubState")) == ("active", "running")
    assert "listening on unix:///run/crishim/crishim.sock" in show(node, "StatusText")
    assert node.guest.run("systemctl is-enabled crishim").strip() == "enabled"
    assert node.guest.read(f"/proc/{show(node, 'MainPID')}/oom_score_adj") == "-999"


def test_the_journal_tells_of_the_start(node: Node) -> None:
    words = node.guest.run("journalctl --unit=crishim --output=cat")
    assert "READY in " in words
    assert "Traceback" not in words


def test_it_runs_on_the_guests_python(node: Node, image: GuestImage) -> None:
    program = node.guest.run(f"readlink /proc/{show(node, 'MainPID')}/exe").strip()
    assert program.endswith(f"/python{image.python}")
    place = node.guest.run(f"cd / && {HOME}/bin/python -c 'import crishim; print(crishim.__file__)'").strip()
    assert place == f"{HOME}/lib/python{image.python}/site-packages/crishim/__init__.py"


def test_the_socket_is_for_root_only(node: Node) -> None:
    assert node.guest.run("stat --format=%a:%U /run/crishim/crishim.sock").strip() == "660:root"


@pytest.mark.parametrize("how", ["systemctl restart crishim", "systemctl kill --signal=SIGKILL crishim"])
def test_a_restart_adopts_what_runs(node: Node, how: str) -> None:
    with node.pod() as pod:
        container = pod.start()
        ip, pid, server = ip_of(pod), node.pid(container), show(node, "MainPID")
        assert ip.startswith("198.51.100.")
        node.guest.run(how)
        wait_for(lambda: show(node, "MainPID"), lambda now: now not in ("0", server))
        node.reconnect()
        node.wait_ready()
        assert node.sandbox_state(pod.id) == "SANDBOX_READY"
        assert node.state(container) == "CONTAINER_RUNNING"
        assert (ip_of(pod), node.pid(container)) == (ip, pid)


def test_a_stop_leaves_pods_running(node: Node) -> None:
    with node.pod() as pod:
        pid = node.pid(pod.start())
        node.guest.run("systemctl stop crishim")
        assert show(node, "Result") == "success"
        assert node.guest.run(f"test -d /proc/{pid} && echo alive").strip() == "alive"
        node.guest.run("systemctl start crishim")
        node.reconnect()
        node.wait_ready()


def test_a_restart_of_the_engine_ends_pods_and_crishim_says_so(node: Node) -> None:
    server = show(node, "MainPID")
    with node.pod() as pod:
        container = pod.start()
        node.guest.run("systemctl restart docker")
        wait_for(lambda: node.sandbox_state(pod.id), lambda state: state == "SANDBOX_NOTREADY")
        wait_for(lambda: node.state(container), lambda state: state == "CONTAINER_EXITED")
        node.wait_ready()
        status = node.call("ContainerStatus", container_id=container).status
        assert status.finished_at >= status.started_at > 0
        assert status.reason == "Error"
        assert status.exit_code in (128 + signal.SIGTERM, 128 + signal.SIGKILL)
    assert show(node, "MainPID") == server
    with node.pod() as pod:  # and goes on with the new engine
        assert node.state(pod.start()) == "CONTAINER_RUNNING"


@pytest.fixture
def live_restore(node: Node) -> Iterator[None]:
    """The engine leaves containers running when it ends."""
    node.guest.write("/etc/docker/daemon.json", '{"live-restore": true}\n')
    node.guest.run("systemctl reload docker")
    wait_for(lambda: node.engine.call("GET", "/info")["LiveRestoreEnabled"])
    yield
    node.guest.run("rm /etc/docker/daemon.json && systemctl restart docker")
    node.wait_ready()


def test_pods_outlive_the_engine_and_are_not_taken_for_dead(node: Node, live_restore: None) -> None:
    with node.pod() as pod:
        container = pod.start()
        pid, server = node.pid(container), show(node, "MainPID")
        node.guest.run("systemctl stop docker.socket docker")  # the socket first: a connection would start it again
        away = wait_for(lambda: node.condition("RuntimeReady"), lambda condition: not condition.status)
        assert away.reason == "DockerDaemonNotReady"
        assert node.sandbox_state(pod.id) == "SANDBOX_READY"
        assert node.state(container) == "CONTAINER_RUNNING"
        assert node.call("RuntimeConfig").linux.cgroup_driver == pb.CgroupDriver.SYSTEMD
        node.guest.run("systemctl start docker.socket docker")
        node.wait_ready()
        assert node.sandbox_state(pod.id) == "SANDBOX_READY"
        assert node.state(container) == "CONTAINER_RUNNING"
        assert (node.pid(container), show(node, "MainPID")) == (pid, server)


def test_pods_survive_that_engine_and_crishim_restart_at_once(node: Node, live_restore: None) -> None:
    with node.pod() as pod:
        container = pod.start()
        pid, ip = node.pid(container), ip_of(pod)
        node.guest.run("systemctl restart docker crishim")
        node.reconnect()
        node.wait_ready()
        assert node.sandbox_state(pod.id) == "SANDBOX_READY"
        assert node.state(container) == "CONTAINER_RUNNING"
        assert (node.pid(container), ip_of(pod)) == (pid, ip)
