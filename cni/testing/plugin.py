"""The scriptable plugin itself.  `cni.testing.ScriptedPlugin` copies this file into a folder for plugins.

Standard library only, and none of this package: it runs alone, named by its file, told what to do by the file
`NAME.script` beside it (JSON: verb → step), and writes what it was given to `NAME.log`, one JSON object a line.
"""

import json
import os
import signal
import sys
import time
from typing import Any


def note(path: str, **entry: Any) -> None:
    """Append one line; a single write, so that lines of several plugins do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, json.dumps(entry).encode() + b"\n")
    os.close(descriptor)


def main() -> int:
    """Do one step of the script and return the exit status."""
    here = os.path.abspath(sys.argv[0])
    verb = os.environ.get("CNI_COMMAND", "")
    try:
        with open(here + ".script") as file:
            script = json.load(file)
    except FileNotFoundError:
        script = {}
    step = script.get(verb, {})
    for name in step.get("ignore", []):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    stdin = sys.stdin.read() if step.get("read_stdin", True) else ""
    run = f"{os.getpid()}.{time.monotonic_ns()}"
    note(here + ".log", event="begun", run=run, verb=verb, pid=os.getpid(), environment=dict(os.environ), stdin=stdin)
    config = json.loads(stdin) if stdin else {}
    if "child" in step:  # one that outlives us and holds our pipes open
        os.spawnvp(os.P_NOWAIT, "sleep", ["sleep", str(step["child"])])  # noqa: S606
    sys.stderr.write(step.get("stderr", ""))
    sys.stderr.flush()
    while "until" in step and not os.path.exists(step["until"]):
        time.sleep(0.01)
    time.sleep(step.get("sleep", 0))
    if "signal" in step:
        os.kill(os.getpid(), getattr(signal, step["signal"]))
    status = 0
    if "error" in step:
        sys.stdout.write(json.dumps({"cniVersion": config.get("cniVersion", "")} | step["error"]))
        status = 1
    elif "stdout" in step:
        sys.stdout.write(step["stdout"])
    elif verb == "ADD":
        result = step.get("result") or config.get("prevResult") or default_result(config)
        sys.stdout.write(json.dumps(result))
    elif verb == "VERSION":
        versions = step.get("versions", ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
        sys.stdout.write(json.dumps({"cniVersion": "1.1.0", "supportedVersions": versions}))
    sys.stdout.flush()
    status = int(step.get("exit", status))
    note(here + ".log", event="ended", run=run, status=status)
    return status


def default_result(config: dict[str, Any]) -> dict[str, Any]:
    """Make the result of ADD where neither the script nor a plugin before us gives one."""
    ip = {"address": "192.0.2.2/24", "interface": 0}
    if config["cniVersion"].startswith("0."):
        ip["version"] = "4"
    return {
        "cniVersion": config["cniVersion"],
        "interfaces": [{"name": os.environ["CNI_IFNAME"], "sandbox": os.environ["CNI_NETNS"]}],
        "ips": [ip],
    }


if __name__ == "__main__":
    sys.exit(main())
