"""A front whose runtime shows how it was called, and the desk that it asks."""

from __future__ import annotations

import datetime
import json
import os
import platform
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
EMULATORS = {"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}
ID = "4f" * 32
PATIENCE = 20.0

Talk = Callable[[socket.socket], None]


@dataclass
class Fronted:
    """A front whose runtime shows how it was called, and a desk that says what a test wants."""

    folder: Path
    command: list[str]
    asked: list[bytes] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def desk(self) -> Path:
        return self.folder / "front.sock"

    @property
    def bundle(self) -> Path:
        return self.folder / "bundle"

    @property
    def config(self) -> Path:
        return self.bundle / "config.json"

    @property
    def log(self) -> Path:
        return self.folder / "log.json"

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*self.command, *arguments], stdout=pipe, stderr=pipe, errors="replace", **options)

    def call(self, *arguments: str, **options: Any) -> tuple[int, str]:
        """Exit status and what was printed."""
        front = self.start(*arguments, **options)
        out, errors = front.communicate(timeout=PATIENCE)
        return front.returncode, out + errors

    def create(self) -> tuple[int, str]:
        return self.call("--log", str(self.log), "--log-format", "json", "create", "--bundle", str(self.bundle), ID)

    def serve(self, *talks: Talk, backlog: int = 8) -> socket.socket:
        """Listen, and have one of `talks` with each that comes, in order."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.desk))
        listening.listen(backlog)

        def work() -> None:
            with listening:
                for talk in talks:
                    with listening.accept()[0] as caller:
                        talk(caller)

        if talks:
            self.threads.append(threading.Thread(target=work))
            self.threads[-1].start()
        return listening

    def answering(self, reply: bytes) -> Talk:
        """Take the question whole, then say this and close."""

        def talk(caller: socket.socket) -> None:
            with caller.makefile("rb") as stream:
                question = stream.read(4)
                for _ in range(4):
                    question += (length := stream.read(4)) + stream.read(struct.unpack(">I", length)[0])
            self.asked.append(question)
            caller.sendall(reply)

        return talk

    def told(self) -> str:
        """What the engine would read in the log: the message of its one line."""
        (line,) = self.log.read_text().splitlines()
        entry = json.loads(line)
        assert entry["level"] == "error"
        age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(entry["time"])
        assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1)
        assert entry["msg"].startswith("crishim front: ")
        return str(entry["msg"].removeprefix("crishim front: "))

    def assert_untouched(self) -> None:
        assert self.config.read_bytes() == b'{"as": "it was"}'
        assert os.listdir(self.bundle) == ["config.json"]
