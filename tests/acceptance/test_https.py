"""The http node over TLS: a certificate that nobody vouches for is refused, and from https nothing leads to http."""

import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from support.asking import asked, workflow
from support.command import COMMAND, HANG_S, environment
from support.command import run as run_command
from support.http_server import Server, reply

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing: apt-get install openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of our own for this machine, and its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return folder


@pytest.fixture
def server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate.pem", certificate / "key.pem")
    with Server(tls=context) as made:
        yield made


def run(folder, certificate, params):
    """Run the command in a process that trusts the certificate; give its status and what it says."""
    path = workflow(folder, params, retry={"attempts": 1})
    return run_command(folder, "run", path, SSL_CERT_FILE=str(certificate / "certificate.pem"))


def test_a_certificate_that_nobody_vouches_for_fails_for_good_and_nothing_is_sent(tmp_path, server):
    result = asked(tmp_path, {"url": f"https://{server.place}/", "body": {}})
    assert (result.error.kind, result.attempts) == ("permanent", 1)
    assert "certificate not trusted: " in result.error.message
    assert server.seen == []


def test_a_server_is_asked_over_tls(tmp_path, server, certificate):
    server.answer = lambda seen: reply(b'{"a": 1}')
    code, out, err = run(tmp_path, certificate, {"url": f"https://{server.place}/"})
    assert code == 0, err
    assert out.startswith('response: {\n  "a": 1\n}\nstatus_code: 200\n')


def test_a_connection_over_tls_is_used_again(tmp_path, server, certificate):
    path = workflow(tmp_path, {"url": f"https://{server.place}/"}, retry={"attempts": 1})
    (tmp_path / "items.jsonl").write_text("{}\n" * 3)
    more = ["--source", "items.jsonl", "--concurrency", "1"]
    code, _, err = run_command(tmp_path, "batch", path, *more, SSL_CERT_FILE=str(certificate / "certificate.pem"))
    assert code == 0, err
    assert (len(server.seen), server.connections) == (3, 1)


def test_a_redirect_from_https_to_http_is_refused(tmp_path, server, certificate):
    with Server() as plain:
        server.answer = lambda seen: reply(b"", 302, headers=[("Location", f"{plain.url}/x")])
        code, _, err = run(tmp_path, certificate, {"url": f"https://{server.place}/", "allow_hosts": ["*"]})
        assert code == 3
        assert f"redirected from https to {plain.url}/x, which anyone can read" in " ".join(err.split())
        assert plain.seen == []


def test_http_where_tls_is_spoken_is_no_answer(tmp_path, server):
    result = asked(tmp_path, {"url": f"http://{server.place}/"}, retry={"attempts": 1})
    assert (result.status, result.error.kind) == ("failed", "transient")


def test_tls_where_http_is_spoken_reaches_nobody(tmp_path):
    with Server() as plain:  # which waits for the rest of what it takes for a request
        params = {"url": f"https://{plain.place}/", "body": {}, "timeout": 0.5}
        result = asked(tmp_path, params, retry={"attempts": 1})
        assert (result.status, result.error.kind) == ("failed", "transient")
        assert plain.seen == []


def test_a_server_that_says_no_good_bye_leaves_nothing_open(tmp_path, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate.pem", certificate / "key.pem")

    def answer():
        connection, _ = listening.accept()
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1 << 16)
            wrapped.sendall(reply(b"{}"))
            is_over.wait(HANG_S)

    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, daemon=True).start()
        path = workflow(tmp_path, {"url": f"https://127.0.0.1:{listening.getsockname()[1]}/"}, retry={"attempts": 1})
        trusting = environment(
            SSL_CERT_FILE=str(certificate / "certificate.pem"), PYTHONWARNINGS="always::ResourceWarning"
        )
        program = f"import gc, graphmill as gm; print(gm.batch({str(path)!r}, [{{}}]).summary()); gc.collect()"
        command = [COMMAND[0], "-c", program]
        done = subprocess.run(
            command, cwd=tmp_path, env=trusting, capture_output=True, text=True, timeout=HANG_S, check=False
        )
        is_over.set()
    assert done.stdout == "1/1 items succeeded\n", done.stderr
    assert "unclosed" not in done.stderr
