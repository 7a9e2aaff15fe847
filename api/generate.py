"""Write the Python stubs of the wire contracts under `api/`: `python api/generate.py [TARGET]`.

TARGET is the folder that gets `crishim/cri/v1/runtime_pb2.py` and its type stub; without it, the root of the
repository. The include root is `api/`, so the generated imports are those of the package as it is installed. No gRPC
stubs are made: the server and its clients build their methods from the descriptor.

Same contract, same versions of grpcio-tools and mypy-protobuf: same bytes. Exit code 1 with protoc's own message where
the contract does not compile.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]  # it ships no types

API = Path(__file__).resolve().parent
CONTRACTS = ("crishim/cri/v1/runtime.proto",)


def generate(target: Path) -> int:
    """Generate all stubs into `target`, an existing folder; return protoc's exit code."""
    # The plugin of the interpreter that runs this, whatever PATH says.
    plugin = Path(sys.executable).parent / "protoc-gen-mypy"
    arguments = [
        "protoc",
        f"--proto_path={API}",
        f"--plugin=protoc-gen-mypy={plugin}",
        f"--python_out={target}",
        f"--mypy_out=quiet:{target}",
        *CONTRACTS,
    ]
    code: int = protoc.main(arguments)
    return code


if __name__ == "__main__":
    sys.exit(generate(Path(sys.argv[1]) if len(sys.argv) > 1 else API.parent))
