"""What a pod's containers share and what they see of the node: namespaces, names, mounts, devices, limits."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env import linux as kernel
from tests.env.engine import TestEngine
from tests.integration.server.fronted import FRONTED
from tests.integration.server.inside import limits
from tests.integration.server.pods import (
    Pod,
    container_status,
    linux,
    make_container,
    make_pod,
    pid_of,
    pod_linux,
    read_log,
)
from tests.integration.server.serving import CALL, CrishimServer
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine
KINDS = ("net", "ipc", "pid", "uts", "mnt")


def namespaces(api: Any, container_id: str) -> dict[str, str]:
    """The namespaces of a container's first process."""
    pid = pid_of(api, container_id)
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in KINDS}


def ours() -> dict[str, str]:
    """The node's: the tests and the engine live in them."""
    return {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in KINDS}


def shared(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {kind for kind in KINDS if one[kind] == other[kind]}


def options(**modes: Any) -> pb.NamespaceOption:
    return pb.NamespaceOption(**modes)


def test_namespaces_of_a_pod(server: CrishimServer, engine: TestEngine) -> None:
    pod = Pod(server)
    sandbox = namespaces(engine.api, pod.id)
    assert shared(sandbox, ours()) == set()
    first = pod.start(make_container("first"))

    def of(name: str, **modes: Any) -> dict[str, str]:
        config = make_container(name, linux=linux(namespace_options=options(**modes)))
        return namespaces(engine.api, pod.start(config))

    assert shared(namespaces(engine.api, first), sandbox) == {"net", "ipc", "pid"}, "nothing said: as the pod"
    assert shared(of("pod", pid=pb.POD), sandbox) == {"net", "ipc", "pid"}
    assert shared(of("own", pid=pb.CONTAINER), sandbox) == {"net", "ipc"}
    node = of("node", pid=pb.NODE)
    assert shared(node, sandbox) == {"net", "ipc"}
    assert node["pid"] == ours()["pid"]
    own = pod.start(make_container("target", linux=linux(namespace_options=options(pid=pb.CONTAINER))))
    target = of("debug", pid=pb.TARGET, target_id=own)
    assert target["pid"] == namespaces(engine.api, own)["pid"]
    told = pod.status().linux.namespaces.options
    assert (told.network, told.ipc) == (pb.POD, pb.POD)


def test_namespaces_of_the_node(server: CrishimServer, engine: TestEngine) -> None:
    modes = options(network=pb.NODE, ipc=pb.NODE, pid=pb.NODE)
    pod = Pod(server, make_pod(server, linux=pod_linux(namespace_options=modes), hostname=""))
    if not FRONTED:  # else it has no process
        assert shared(namespaces(engine.api, pod.id), ours()) == {"net", "ipc", "pid", "uts"}
    container_id = pod.start(make_container(linux=linux(namespace_options=modes)))
    assert shared(namespaces(engine.api, container_id), ours()) == {"net", "ipc", "pid", "uts"}
    status = pod.status()
    assert status.linux.namespaces.options == modes
    assert not status.HasField("network"), "an address of the node would be no pod's, and an empty one is worse"
    assert list(server.pins.iterdir()) == [], "the node's own namespace is never pinned"


def test_shared_memory(server: CrishimServer) -> None:
    """One /dev/shm and one set of System V segments per pod."""
    pod, other = Pod(server), Pod(server)
    pod.say("echo shared >/dev/shm/note; df -k /dev/shm | tail -1")
    assert pod.say("cat /dev/shm/note") == "shared\n"
    assert other.say("ls /dev/shm") == ""
    assert int(pod.say("df -k /dev/shm | tail -1").split()[1]) == 64 << 10


def test_names(server: CrishimServer) -> None:
    """Hostname and resolv.conf are the pod's, in every container, also of a pod with host network."""
    dns = pb.DNSConfig(servers=["192.0.2.53", "2001:db8::53"], searches=["a.example", "b.example"], options=["ndots:5"])
    expected = "nameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch a.example b.example\noptions ndots:5\n"
    fqdn = "web-0.web.default.svc.cluster.local"  # what a kubelet sends for `setHostnameAsFQDN`
    pod = Pod(server, make_pod(server, hostname=fqdn, dns_config=dns))
    assert pod.say("hostname; cat /etc/resolv.conf") == f"{fqdn}\n{expected}"
    host = pod_linux(namespace_options=options(network=pb.NODE))
    in_host = linux(namespace_options=options(network=pb.NODE))
    asking = Pod(server, make_pod(server, hostname="another", linux=host))
    assert asking.say("hostname", linux=in_host) == f"{os.uname().nodename}\n", "the node's, whatever is asked"
    on_host = Pod(server, make_pod(server, hostname="", dns_config=dns, linux=host))
    assert on_host.say("hostname; cat /etc/resolv.conf", linux=in_host) == f"{os.uname().nodename}\n{expected}"
    plain = Pod(server)
    assert plain.say("test -e /etc/resolv.conf && echo there") == "there\n"


def test_sysctls(server: CrishimServer) -> None:
    sysctls = {
        "net.ipv4.ip_unprivileged_port_start": "1024",
        "kernel.shmmax": "123456789",
        "net/ipv4/ping_group_range": "5 6",
    }
    pod = Pod(server, make_pod(server, linux=pod_linux(sysctls=sysctls)))
    said = pod.say(
        "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shmmax /proc/sys/net/ipv4/ping_group_range"
    )
    assert said.split() == ["1024", "123456789", "5", "6"]


def test_ipv6_is_on(server: CrishimServer) -> None:
    """Engines switch it off in a namespace without a network of theirs; a pod may still wish it off."""
    script = "cat /proc/sys/net/ipv6/conf/lo/disable_ipv6 /proc/sys/net/ipv6/conf/default/disable_ipv6"
    assert Pod(server).say(script).split() == ["0", "0"]
    off = make_pod(server, linux=pod_linux(sysctls={"net.ipv6.conf.default.disable_ipv6": "1"}))
    assert Pod(server, off).say(script).split() == ["0", "1"]


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A shared mount of the test's own, with a file; unmounted after the test."""
    folder = tmp_path / "tree"
    folder.mkdir()
    kernel.mount("tmpfs", folder, "tmpfs")
    kernel.mount("none", folder, None, kernel.MS_SHARED)
    (folder / "file").write_text("content\n")
    (folder / "sub").mkdir()
    yield folder
    for point, *_ in reversed(kernel.mounts()):
        if Path(point).is_relative_to(folder):
            kernel.umount(point)


def test_mounts(server: CrishimServer, tree: Path) -> None:
    link = tree.parent / "link"
    link.symlink_to(tree)
    mounts = [
        pb.Mount(host_path=str(tree), container_path="/rw"),
        pb.Mount(host_path=str(link), container_path="/through/a/link", readonly=True),
        pb.Mount(host_path=str(tree / "file"), container_path="/etc/one-file", readonly=True),
    ]
    pod = Pod(server)
    said = pod.say(
        "cat /rw/file /through/a/link/file /etc/one-file; echo new >/rw/new; touch /through/a/link/x /etc/one-file"
        " 2>&1 | grep -c Read-only",
        mounts=mounts,
    )
    assert said == "content\n" * 3 + "2\n"
    assert (tree / "new").read_text() == "new\n"
    container_id = pod.create(make_container(mounts=mounts))
    told = container_status(server, container_id).mounts
    assert list(told) == mounts, "as given: the termination message is found through them"


def test_propagation(server: CrishimServer, tree: Path) -> None:
    """What is mounted later: private sees nothing, host-to-container sees it, bidirectional shows its own as well."""
    pod = Pod(server, make_pod(server, linux=pod_linux(privileged=True)))
    kinds = {
        "private": pb.PROPAGATION_PRIVATE,
        "slave": pb.PROPAGATION_HOST_TO_CONTAINER,
        "shared": pb.PROPAGATION_BIDIRECTIONAL,
    }
    script = (
        "until test -e /go; do sleep 0.05; done; test -e /data/sub/late && echo saw;"
        " mkdir -p /data/own-$KIND && mount -t tmpfs own /data/own-$KIND && touch /data/own-$KIND/inside; echo done"
    )
    go = tree.parent / "go"
    made = {}
    for name, kind in kinds.items():
        mounts = [
            pb.Mount(host_path=str(tree), container_path="/data", propagation=kind),
            pb.Mount(host_path=str(tree.parent), container_path="/run/parent"),
        ]
        config = make_container(
            name,
            command=["sh", "-c", script.replace("/go", "/run/parent/go")],
            envs=[pb.KeyValue(key="KIND", value=name.encode())],
            mounts=mounts,
            linux=linux(privileged=True),
        )
        made[name] = pod.start(config)
    kernel.mount("tmpfs", tree / "sub", "tmpfs")
    (tree / "sub" / "late").touch()
    go.touch()
    said = {name: read_log(Path(pod.ended(key).log_path)).split() for name, key in made.items()}
    assert said == {"private": ["done"], "slave": ["saw", "done"], "shared": ["saw", "done"]}
    assert not (tree / "own-private" / "inside").exists()
    assert not (tree / "own-slave" / "inside").exists()
    assert (tree / "own-shared" / "inside").exists()


def test_readonly_is_not_recursive_unless_asked(server: CrishimServer, tree: Path) -> None:
    kernel.mount("tmpfs", tree / "sub", "tmpfs")
    pod = Pod(server)
    mount = pb.Mount(host_path=str(tree), container_path="/data", readonly=True)
    said = pod.say("touch /data/sub/x && echo below; touch /data/x 2>/dev/null || echo refused", mounts=[mount])
    assert said.split() == ["below", "refused"]


def test_devices(server: CrishimServer, tmp_path: Path) -> None:
    """With the permissions asked for, under the path asked for; a folder stands for the devices in it."""
    folder = tmp_path / "devices"
    folder.mkdir()
    for name, major, minor in (("null", 1, 3), ("zero", 1, 5), ("loop", 10, 237)):
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.mknod(tmp_path / "hpet", stat.S_IFCHR | 0o666, os.makedev(10, 228))
    devices = [
        pb.Device(host_path="/dev/full", container_path="/dev/renamed", permissions="rw"),
        pb.Device(host_path=str(folder / "loop"), container_path="/dev/readable", permissions="r"),
        pb.Device(host_path=str(tmp_path / "hpet"), container_path="/dev/all"),
        pb.Device(host_path=str(folder), container_path="/dev/folder", permissions="r"),
    ]
    pod = Pod(server)
    said = pod.say(
        "(echo x >/dev/renamed) 2>&1 | grep -o 'No space'; head -c2 /dev/folder/zero | wc -c; ls /dev/folder;"
        # Whether the node has a driver for it or not: only the cgroup says that it is not permitted.
        " for d in readable folder/loop; do (: >/dev/$d) 2>&1 | grep -o 'not permitted'; done;"
        " (: </dev/readable) 2>&1 | grep -o 'not permitted' || echo permitted;"
        " (: <>/dev/all) 2>&1 | grep -o 'not permitted' || echo all permitted",
        devices=devices,
    )
    words = ["No space", "2", "loop", "null", "zero", "not permitted", "not permitted", "permitted", "all permitted"]
    assert said.split("\n")[:-1] == words


# --- limits


def test_resources(server: CrishimServer, engine: TestEngine) -> None:
    resources = pb.LinuxContainerResources(
        cpu_period=50_000,
        cpu_quota=25_000,
        cpu_shares=512,
        memory_limit_in_bytes=64 << 20,
        memory_swap_limit_in_bytes=64 << 20,
        cpuset_cpus="0",
        oom_score_adj=500,
        hugepage_limits=[pb.HugepageLimit(page_size="2MB", limit=0)],
    )
    pod = Pod(server)
    container_id = pod.start(make_container(linux=linux(resources=resources)))
    assert limits(engine.api, container_id) == (str(64 << 20), "25000", "512", "0")
    assert Path(f"/proc/{pid_of(engine.api, container_id)}/oom_score_adj").read_text() == "500\n"
    told = container_status(server, container_id).resources.linux
    assert (told.cpu_period, told.cpu_quota, told.cpu_shares) == (50_000, 25_000, 512)
    assert (told.memory_limit_in_bytes, told.cpuset_cpus) == (64 << 20, "0")


def test_no_limits(server: CrishimServer, engine: TestEngine) -> None:
    container_id = Pod(server).start(make_container(linux=None))
    memory, quota, shares, _ = limits(engine.api, container_id)
    assert (int(memory) > 1 << 60, quota, shares) == (True, "-1", "1024")
    told = container_status(server, container_id).resources.linux
    assert (told.memory_limit_in_bytes, told.cpu_quota, told.cpu_shares) == (0, 0, 1024)


def test_updates(server: CrishimServer, engine: TestEngine) -> None:
    """One after the other, up and down, the others left as they were; told as in force."""
    pod = Pod(server)
    start = pb.LinuxContainerResources(
        cpu_shares=512, memory_limit_in_bytes=64 << 20, memory_swap_limit_in_bytes=64 << 20
    )
    container_id = pod.start(make_container(linux=linux(resources=start)))

    def update(**changes: Any) -> tuple[str, str, str, str]:
        request = pb.UpdateContainerResourcesRequest(
            container_id=container_id, linux=pb.LinuxContainerResources(**changes), annotations={"ignored": "yes"}
        )
        server.client.UpdateContainerResources(request, timeout=CALL)
        return limits(engine.api, container_id)

    cpus = limits(engine.api, container_id)[3]
    assert update(memory_limit_in_bytes=128 << 20) == (str(128 << 20), "-1", "512", cpus), "above the swap limit"
    assert update(cpu_quota=30_000, cpu_period=100_000) == (str(128 << 20), "30000", "512", cpus)
    assert update(cpu_shares=256) == (str(128 << 20), "30000", "256", cpus)
    assert update() == (str(128 << 20), "30000", "256", cpus)
    assert update(memory_limit_in_bytes=32 << 20) == (str(32 << 20), "30000", "256", cpus)
    assert update(cpu_quota=-1) == (str(32 << 20), "-1", "256", cpus)
    update(oom_score_adj=700)
    assert Path(f"/proc/{pid_of(engine.api, container_id)}/oom_score_adj").read_text() == "700\n"
    server.client.UpdateContainerResources(pb.UpdateContainerResourcesRequest(container_id=container_id), timeout=CALL)
    told = container_status(server, container_id).resources.linux
    assert (told.memory_limit_in_bytes, told.cpu_quota, told.cpu_shares) == (32 << 20, 0, 256)
    assert told.oom_score_adj == 700


@pytest.fixture
def cgroup_parent() -> Iterator[str]:
    """The name of a cgroup for a pod; removed after the test."""
    name = f"/kubepods-test/pod{os.getpid()}"
    yield name
    for top in Path("/sys/fs/cgroup").iterdir():
        for path in (top / name.lstrip("/"), top / "kubepods-test"):
            if path.is_dir() and not path.is_symlink():
                until(partial(_removed, path), f"{path} is empty")


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def test_cgroup_parent(server: CrishimServer, engine: TestEngine, cgroup_parent: str) -> None:
    pod = Pod(server, make_pod(server, linux=pod_linux(cgroup_parent=cgroup_parent)))
    container_id = pod.start()
    for key in (pod.id, container_id):
        lines = Path(f"/proc/{pid_of(engine.api, key)}/cgroup").read_text().splitlines()
        memory = next(line.split(":", 2)[2] for line in lines if "memory" in line or line.startswith("0::"))
        assert memory == f"{cgroup_parent}/{key}"
    pod.remove()


def test_pod_resources_are_taken(server: CrishimServer) -> None:
    """The kubelet writes the pod's cgroup itself and rejects a resize on any error."""
    pod = Pod(server)
    request = pb.UpdatePodSandboxResourcesRequest(
        pod_sandbox_id=pod.id,
        overhead=pb.LinuxContainerResources(cpu_shares=2),
        resources=pb.LinuxContainerResources(memory_limit_in_bytes=1 << 20),
    )
    assert server.client.UpdatePodSandboxResources(request, timeout=CALL) == pb.UpdatePodSandboxResourcesResponse()


def test_the_sandbox_itself(server: CrishimServer, engine: TestEngine) -> None:
    """Its security context acts on its own process only, whose OOM score is as low as the host allows."""
    context = pod_linux(
        run_as_user=pb.Int64Value(value=77),
        run_as_group=pb.Int64Value(value=78),
        supplemental_groups=[79],
        readonly_rootfs=True,
        seccomp=pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault),
    )
    pod = Pod(server, make_pod(server, linux=context))
    pid = pid_of(engine.api, pod.id)
    fields = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    assert (fields["Uid"].split()[0], fields["Gid"].split()[0]) == ("77", "78")
    assert "79" in fields["Groups"].split()
    assert (fields["Seccomp"], fields["NoNewPrivs"]) == ("2", "0")
    floor = (
        -998 if kernel.has_capability(kernel.CAP_SYS_RESOURCE) else int(Path("/proc/self/oom_score_adj").read_text())
    )
    assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) == floor
    assert pod.say("id -u").strip() == "0"
