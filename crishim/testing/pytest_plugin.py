"""The pytest fixture `cri_endpoint`: a crishim of one's own for each test; there for pytest where crishim is installed.

    def test_my_controller(cri_endpoint):
        channel = grpc.insecure_channel(cri_endpoint.endpoint)

It serves the simulated engine, or with `--crishim-engine unix:///var/run/docker.sock` a real one. More flags of
`crishim serve` are given by overriding the fixture `crishim_flags`. docs/testing.md has the whole story.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from crishim.testing.endpoint import CRIEndpoint

OPTION = "--crishim-engine"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The engine behind `cri_endpoint`."""
    parser.getgroup("crishim").addoption(
        OPTION,
        metavar="ADDRESS",
        default="simulated:",
        help="engine behind cri_endpoint: simulated: (default), or unix:// and the socket of a Docker Engine",
    )


@pytest.fixture
def crishim_flags() -> Sequence[str]:
    """Flags of `crishim serve` beyond those that the fixture sets; override it to give some."""
    return ()


@pytest.fixture
def cri_endpoint(request: pytest.FixtureRequest, crishim_flags: Sequence[str]) -> Iterator[CRIEndpoint]:
    """A CRI v1 server on a temporary unix socket, ready; gone at the end, with all pods and folders it made."""
    from crishim.testing.endpoint import serve_endpoint

    with serve_endpoint(request.config.getoption(OPTION), crishim_flags) as endpoint:
        yield endpoint
