"""The http node: where it goes. A template or a redirect leads to public addresses only, unless the author allows the host (G24)."""

import re
import socket

import pytest

import graphmill as gm
from graphmill.nodes.http import response
from support.asking import answered, asked, refused
from support.http_server import Server, reply

NOT_PUBLIC = "is not a public address"


@pytest.fixture
def server():
    with Server() as made:
        yield made


@pytest.fixture
def other():
    with Server() as made:
        yield made


def leading(status, location, then=b"{}"):
    """Answer the first path with a redirect, and all others well."""
    return lambda seen: reply(b"", status, headers=[("Location", location)]) if seen.path == "/start" else reply(then)


# --- hosts that a template names ---


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "LOCALHOST.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "0.0.0.0",
        "169.254.169.254",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "0",
        "１２７.0.0.1",
        "127.0.0.1%00.example.org",
        "127.0.0.1\\@example.org",
        "example.org@127.0.0.1",
        "127.0.0.1#example.org",
    ],
)
def test_a_host_that_a_template_names_is_not_asked_if_its_address_is_not_public(tmp_path, server, host, monkeypatch):
    connected = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: connected.append(address))
    for url in ("http://${value}/", f"http://${{value}}:{server.port}/", "${value}"):
        value = f"http://{host}:{server.port}/" if url == "${value}" else host
        result = asked(tmp_path, {"url": url}, value, retry={"attempts": 1})
        assert result.status == "failed", url
    assert server.seen == []
    assert [address for address in connected if isinstance(address, tuple)] == []


def test_the_refusal_names_the_host_and_the_remedy(tmp_path, server):
    message = refused(tmp_path, {"url": "http://${value}/secret?key=hunter2"}, server.place)
    assert message.startswith(f"GET {server.url}/secret?key=…: 127.0.0.1 {NOT_PUBLIC}")
    assert "add it to allow_hosts" in message


def test_a_host_that_the_author_wrote_may_be_any(tmp_path, server):
    answered(tmp_path, {"url": f"http://localhost:{server.port}/${{value}}"}, "x")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "part", ["http://127.0.0.${value}:{port}/", "http://127.0.0.1:${value}/", "${value}://127.0.0.1:{port}/"]
)
def test_any_template_before_the_path_counts(tmp_path, server, part):
    value = "http" if part.startswith("$") else server.port if "1:$" in part else 1
    assert NOT_PUBLIC in refused(tmp_path, {"url": part.replace("{port}", str(server.port))}, value)
    assert server.seen == []


# --- name servers that change their mind ---


def test_an_address_is_checked_as_it_is_connected_to_so_that_a_name_server_can_not_change_it_afterwards(
    tmp_path, server, monkeypatch
):
    from aiohttp.resolver import ThreadedResolver  # noqa: PLC0415

    answers = iter(["127.0.0.2", "127.0.0.1", "127.0.0.2"])

    async def resolve(self, host, port=0, family=socket.AF_INET):
        return [
            {"hostname": host, "host": next(answers), "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
        ]

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)
    monkeypatch.setattr(response, "is_public", lambda address: address == "127.0.0.2")
    with Server(host="127.0.0.2", port=server.port) as public:
        url = f"http://rebound.test:{server.port}/"
        answered(tmp_path, {"url": "${value}"}, url)
        assert NOT_PUBLIC in refused(tmp_path, {"url": "${value}"}, url)
        answered(tmp_path, {"url": "${value}"}, url)
        assert (len(public.seen), len(server.seen)) == (2, 0)


def test_a_connection_that_the_author_may_use_is_not_lent_to_a_template(tmp_path, server):
    nodes = [
        f"{{id: mine, type: http, params: {{url: 'http://localhost:{server.port}/mine'}}}}",
        "{id: theirs, type: http, params: {url: 'http://${host}/theirs'}}",
    ]
    path = tmp_path / "two.yaml"
    path.write_text(f"inputs: {{host: {{required: true}}}}\nnodes: [{', '.join(nodes)}]")
    result = gm.run(gm.load(path), {"host": f"localhost:{server.port}"})
    assert (result.status, result.error.kind) == ("failed", "permanent")
    assert [seen.path for seen in server.seen] == ["/mine"]


# --- redirects ---


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location", ["/next?a=b#c", "next?a=b", "{url}/next?a=b", "//{place}/next?a=b", "./x/../next?a=b"]
)
def test_a_redirect_on_the_same_host_is_followed(tmp_path, server, status, location):
    server.answer = leading(status, location.format(url=server.url, place=server.place))
    answered(tmp_path, {"url": f"{server.url}/start", "headers": {"X-Key": "k"}, "auth": {"bearer": "t"}})
    assert [seen.target for seen in server.seen] == ["/start", "/next?a=b"]
    assert [(seen.header("x-key"), seen.header("authorization")) for seen in server.seen] == [("k", "Bearer t")] * 2


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [
        (301, "POST", ("GET", b"")),
        (302, "POST", ("GET", b"")),
        (303, "POST", ("GET", b"")),
        (303, "PUT", ("GET", b"")),
        (307, "POST", ("POST", b"{}")),
        (308, "POST", ("POST", b"{}")),
        (301, "PUT", ("PUT", b"{}")),
        (302, "DELETE", ("DELETE", b"{}")),
    ],
)
def test_a_redirect_keeps_method_and_body_where_browsers_do(tmp_path, server, status, method, expected):
    server.answer = leading(status, "/next")
    answered(tmp_path, {"url": f"{server.url}/start", "method": method, "body": {}})
    first, second = server.seen
    assert (second.method, second.body) == expected
    assert (second.header("content-type") is None) == (second.method == "GET")
    assert second.header("idempotency-key") == (first.header("idempotency-key") if second.method == method else None)


def test_a_redirect_to_another_host_is_followed_if_it_is_allowed_and_gets_nothing_that_was_meant_for_the_first(
    tmp_path, server, other
):
    server.answer = leading(307, f"{other.url}/next")
    params = {
        "url": f"{server.url}/start",
        "body": {"a": 1},
        "auth": {"bearer": "token"},
        "headers": {"X-Api-Key": "k", "Cookie": "c=d", "Accept": "x/y"},
        "allow_hosts": ["127.0.0.1"],
    }
    answered(tmp_path, params)
    (seen,) = other.seen
    assert (seen.method, seen.body, seen.header("accept"), seen.header("content-type")) == (
        "POST",
        b'{"a":1}',
        "x/y",
        "application/json",
    )
    assert [seen.header(name) for name in ("authorization", "cookie", "x-api-key", "idempotency-key")] == [None] * 4


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "//localhost:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://2130706433:{port}/",
    ],
)
def test_a_redirect_to_an_address_that_is_not_public_is_refused(tmp_path, server, other, location):
    server.answer = leading(302, location.format(port=other.port))
    result = asked(tmp_path, {"url": f"{server.url}/start"}, retry={"attempts": 1})
    assert (result.status, result.error.kind) == ("failed", "permanent")
    assert (len(server.seen), len(other.seen)) == (1, 0)


def test_a_redirect_back_to_the_first_host_is_checked_like_any_other(tmp_path, server, other):
    server.answer = leading(302, f"{other.url}/back")
    other.answer = lambda seen: reply(b"", 302, headers=[("Location", f"{server.url}/last")])
    assert NOT_PUBLIC in refused(tmp_path, {"url": f"{server.url}/start", "allow_hosts": [other.place]})
    assert [seen.path for seen in server.seen] == ["/start"]


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://example.org/", "http://me:pw@example.org/", "http://[", "gopher://x/"]
)
def test_a_redirect_to_what_is_no_url_is_refused(tmp_path, server, location):
    server.answer = leading(302, location)
    message = refused(tmp_path, {"url": f"{server.url}/start"})
    assert "redirected to an invalid URL" in message
    assert "me:pw" not in message


def test_redirects_end(tmp_path, server):
    server.answer = lambda seen: reply(b"", 302, headers=[("Location", f"/{len(server.seen)}")])
    assert re.search(r"GET \S+/11: more than 10 redirects", refused(tmp_path, {"url": server.url}))
    assert len(server.seen) == 11


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_what_failed_behind_a_redirect_of_a_request_that_has_happened_is_not_sent_again(tmp_path, server, status):
    server.answer = lambda seen: (
        reply(b"", 303, headers=[("Location", "/next")]) if seen.path == "/start" else reply(b"", status)
    )
    result = asked(tmp_path, {"url": f"{server.url}/start", "body": {}})
    assert (result.error.kind, result.attempts) == ("ambiguous", 1)
    assert [seen.path for seen in server.seen] == ["/start", "/next"]


@pytest.mark.parametrize("location", ["http://localhost:1/", "ftp://example.org/", "/start"])
def test_a_request_that_has_happened_and_leads_nowhere_is_ambiguous(tmp_path, server, location):
    server.answer = lambda seen: reply(b"", 303, headers=[("Location", location)])
    result = asked(tmp_path, {"url": f"{server.url}/start", "body": {}})
    assert (result.error.kind, result.attempts) == ("ambiguous", 1)
    assert [seen.method for seen in server.seen].count("POST") == 1
