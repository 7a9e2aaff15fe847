"""The test world itself: what the other integration tests stand on."""

from __future__ import annotations

from tests.env.engine import TestEngine


def test_engine_runs_a_container(engine: TestEngine, busybox_image: str) -> None:
    spec = {
        "Image": busybox_image,
        "Cmd": ["sh", "-c", "echo hello; exit 7"],
        "HostConfig": {"NetworkMode": "none", "Memory": 1 << 26},
    }
    container = engine.api.call("POST", "/containers/create", json_body=spec)["Id"]
    try:
        engine.api.call("POST", f"/containers/{container}/start")
        assert engine.api.call("POST", f"/containers/{container}/wait")["StatusCode"] == 7
        assert b"hello" in engine.api.call("GET", f"/containers/{container}/logs", {"stdout": "1"})
    finally:
        engine.api.call("DELETE", f"/containers/{container}", {"force": "1"})
