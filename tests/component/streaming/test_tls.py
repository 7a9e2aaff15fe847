"""TLS: with and without clients' certificates, with files that are replaced while the server runs."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from crishim.streaming.server import CannotListen, StreamingServer, StreamingSettings
from tests.component.streaming.conftest import GoClient, Serve, until
from tests.component.streaming.fakes import Process, cat, says

DAYS = ("-days", "2")
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(place: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=place, capture_output=True, check=True)


def make_ca(place: Path, name: str) -> None:
    """NAME.crt and NAME.key."""
    openssl(place, "req", "-x509", *KEY, *DAYS, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")


def make_leaf(place: Path, name: str, ca: str, usage: str) -> None:
    """NAME.crt and NAME.key, for 127.0.0.1."""
    openssl(place, "req", *KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (place / "extensions").write_text(f"subjectAltName=IP:127.0.0.1\nextendedKeyUsage={usage}\n")
    signer = ("-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial")
    openssl(
        place, "x509", "-req", "-in", f"{name}.csr", *signer, *DAYS, "-extfile", "extensions", "-out", f"{name}.crt"
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tls")
    make_ca(place, "ca")
    make_ca(place, "other")
    for name, ca, usage in (("server", "ca", "serverAuth"), ("client", "ca", "clientAuth")):
        make_leaf(place, name, ca, usage)
    make_leaf(place, "stranger", "other", "clientAuth")
    return place


def settings(place: Path, *, client_ca: bool = False) -> StreamingSettings:
    return StreamingSettings(
        certificate=place / "server.crt", key=place / "server.key", client_ca=place / "ca.crt" if client_ca else None
    )


async def issuer_seen(server: StreamingServer) -> str:
    """Who signed what the server shows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    where = urlsplit(server.url)
    _, writer = await asyncio.open_connection(where.hostname, where.port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    text = ssl.DER_cert_to_PEM_cert(shown)
    named = subprocess.run(
        ["openssl", "x509", "-noout", "-issuer"], input=text, capture_output=True, text=True, check=True
    )
    return named.stdout


async def test_sessions_through_tls(serve: Serve, files: Path, go_client: GoClient, transport: tuple[str, ...]) -> None:
    server = await serve(settings(files))
    flags = (*transport, "-ca", str(files / "ca.crt"), "-stdin")
    url = server.exec(Process(cat))
    assert url.startswith("https://127.0.0.1:")
    done = await go_client.run(*flags, "process", url, given=bytes(5_000_000))
    assert (done.status, len(done.output)) == (0, 5_000_000)


async def test_clients_without_a_certificate_of_the_ca_are_kept_out(
    serve: Serve, files: Path, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    server = await serve(settings(files, client_ca=True))
    flags = (*transport, "-ca", str(files / "ca.crt"))
    url = server.exec(Process(says(b"hi"), stdin=False))
    for name in (None, "stranger"):
        shown = () if name is None else ("-cert", str(files / f"{name}.crt"), "-key", str(files / f"{name}.key"))
        done = await go_client.run(*flags, *shown, "process", url)
        assert (done.status, done.output) == (125, b"")
    shown = ("-cert", str(files / "client.crt"), "-key", str(files / "client.key"))
    done = await go_client.run(*flags, *shown, "process", url)
    assert (done.status, done.output) == (0, b"hi")


async def test_plain_http_on_a_tls_port_gets_nothing(serve: Serve, files: Path) -> None:
    server = await serve(settings(files))
    where = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"HTTP" not in await asyncio.wait_for(reader.read(), 15)
    writer.close()


async def test_new_files_are_picked_up_and_broken_ones_leave_the_old_in_force(
    serve: Serve, files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("server.crt", "server.key"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    server = await serve(settings(tmp_path))
    assert "CN = ca" in await issuer_seen(server)
    (tmp_path / "server.crt").write_text("half written")
    assert "CN = ca" in await issuer_seen(server)
    assert "CN = ca" in await issuer_seen(server)
    assert caplog.text.count("the old ones stay in force") == 1
    (tmp_path / "server.crt").unlink()
    assert "CN = ca" in await issuer_seen(server)
    make_leaf(files, "server2", "other", "serverAuth")
    for end in ("key", "crt"):
        (tmp_path / f"server.{end}").write_bytes((files / f"server2.{end}").read_bytes())
    assert "CN = other" in await issuer_seen(server)
    await until(lambda: server.idle)


async def test_files_that_cannot_be_used_at_the_start(files: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotListen, match="cannot be used"):
        StreamingServer(settings(tmp_path))
    with pytest.raises(CannotListen, match="certificate and its key"):
        StreamingServer(StreamingSettings(certificate=files / "server.crt"))
    with pytest.raises(CannotListen, match="certificate and its key"):
        StreamingServer(StreamingSettings(client_ca=files / "ca.crt"))
