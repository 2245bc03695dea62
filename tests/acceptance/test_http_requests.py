"""The http node: what is sent. A template's value is data wherever it stands: its exact bytes arrive, or nothing is sent."""

import base64
import json
import re
import socket
from urllib.parse import parse_qsl

import pytest

import graphmill as gm
from support.asking import answered, asked, refused
from support.hostile_values import UNSENDABLE, VALUES
from support.http_server import Server, reply

NO_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|^[ \t]|[ \t]$|\n\Z")
HOSTILE = {
    name: value
    for name, value in (VALUES | UNSENDABLE).items()
    if value.isascii() or not re.search("[\ud800-\udfff]", value)
}
hostile = pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in HOSTILE.items()])


@pytest.fixture(scope="module")
def server():
    with Server() as made:
        yield made


@pytest.fixture(autouse=True)
def log(server):
    """What arrives during one test."""
    server.seen.clear()
    server.answer = lambda seen: reply(b"{}")
    return server.seen


@hostile
def test_a_hostile_value_arrives_exactly_in_every_place_of_a_request(tmp_path, server, log, value):
    params = {
        "url": f"{server.url}/before/${{value}}-x/after?q=${{value}}&last=1#${{value}}",
        "params": {"p": "${value}", "list": ["${value}", 2]},
        "body": {"deep": ["${value}"]},
        "auth": {"basic": {"user": "me", "password": "${value}"}},
    }
    answered(tmp_path, params, value)
    answered(tmp_path, {"url": f"{server.url}/form", "form": {"a": "${value}", "b": "end"}}, value)
    answered(tmp_path, {"url": f"{server.url}/text", "method": "PUT", "body": "<${value}>"}, value)
    first, form, text = log
    assert first.parts == ["before", f"{value}-x", "after"]
    assert first.query == [("q", value), ("last", "1"), ("p", value), ("list", value), ("list", "2")]
    assert json.loads(first.body) == {"deep": [value]}
    assert base64.b64decode(first.header("authorization").removeprefix("Basic ")) == f"me:{value}".encode()
    assert parse_qsl(form.body.decode(), keep_blank_values=True) == [("a", value), ("b", "end")]
    assert text.body == f"<{value}>".encode()


@hostile
def test_a_hostile_value_arrives_exactly_in_a_header_or_nothing_is_sent(tmp_path, server, log, value):
    params = {"url": server.url, "headers": {"X-Value": "${value}", "X-Last": "1"}}
    if NO_HEADER.search(value):
        assert "the value has a line end" in refused(tmp_path, params, value)
        assert log == []
    elif len(value) > 8000:
        asked(tmp_path, params, value)
        assert [seen.header("x-value") for seen in log] == [value]
    else:
        answered(tmp_path, params, value)
        assert (log[0].header("x-value"), log[0].header("x-last")) == (value, "1")


@hostile
def test_a_hostile_value_in_the_host_part_reaches_no_other_host(tmp_path, server, log, value):
    for url in (
        "http://${value}/x",
        f"http://${{value}}.{server.place}/x",
        f"http://{server.place}${{value}}/x",
        "${value}",
    ):
        result = asked(tmp_path, {"url": url}, value)
        assert result.status == "failed"
        assert log == []


@pytest.mark.parametrize("value", [".", "..", "", "%2e", "%2E%2e"])
def test_a_value_that_would_name_another_path_is_refused_or_arrives_as_it_is(tmp_path, server, log, value):
    params = {"url": f"{server.url}/users/${{value}}/keys", "method": "DELETE"}
    if "%" in value:
        answered(tmp_path, params, value)
        assert log[0].parts == ["users", value, "keys"]
    else:
        assert "would name another path" in refused(tmp_path, params, value)
        assert log == []


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("/a b/ü?q=ä%20&r=#f", "/a%20b/%C3%BC?q=%C3%A4%20&r="),
        ("", "/"),
        ("?q=1", "/?q=1"),
        ("/a/%2F/../b", "/a/%2F/../b"),
        ("/x\r\nX: y", "/x%0D%0AX:%20y"),
    ],
)
def test_a_template_by_itself_is_a_whole_url(tmp_path, server, log, value, target):
    answered(tmp_path, {"url": "${value}", "allow_hosts": ["127.0.0.1"]}, f" {server.url}{value}\n")
    assert log[0].target == target


@pytest.mark.parametrize(
    ("params", "method", "body", "kind"),
    [
        ({}, "GET", b"", None),
        ({"body": {"a": [1, None, "é"]}}, "POST", '{"a":[1,null,"é"]}'.encode(), "application/json"),
        ({"body": [1]}, "POST", b"[1]", "application/json"),
        ({"body": False}, "POST", b"false", "application/json"),
        ({"body": "text é"}, "POST", "text é".encode(), "text/plain; charset=utf-8"),
        ({"body": "<a/>", "headers": {"Content-Type": "application/xml"}}, "POST", b"<a/>", "application/xml"),
        (
            {"form": {"a": "1 2", "b": [True, None, 3]}},
            "POST",
            b"a=1%202&b=true&b=3",
            "application/x-www-form-urlencoded",
        ),
        ({"method": "get"}, "GET", b"", None),
        ({"method": "HEAD"}, "HEAD", b"", None),
        ({"method": "delete"}, "DELETE", b"", None),
        ({"method": "patch", "body": {}}, "PATCH", b"{}", "application/json"),
        ({"method": "OPTIONS"}, "OPTIONS", b"", None),
    ],
)
def test_a_body_is_sent_as_what_it_is_and_by_post_unless_the_method_is_written(
    tmp_path, server, log, params, method, body, kind
):
    server.answer = lambda seen: reply(b"" if seen.method == "HEAD" else b"{}")
    answered(tmp_path, {"url": server.url, **params})
    (seen,) = log
    assert (seen.method, seen.target, seen.body, seen.header("content-type")) == (method, "/", body, kind)
    assert seen.header("accept-encoding") == "gzip, deflate"
    assert (seen.header("idempotency-key") is None) == (method in ("GET", "HEAD", "OPTIONS"))


def test_a_large_body_arrives_whole_also_where_it_is_redirected(tmp_path, server, log):
    large = "ä" * (1 << 20)
    server.answer = lambda seen: reply(b"", 307, headers=[("Location", "/there")]) if seen.path == "/" else reply(b"{}")
    answered(tmp_path, {"url": f"{server.url}/", "body": "${value}"}, large)
    assert [(seen.path, seen.body == large.encode(), seen.header("content-length")) for seen in log] == [
        ("/", True, str(2 << 20)),
        ("/there", True, str(2 << 20)),
    ]


def test_headers_and_params_that_are_null_are_left_out_and_scalars_become_text(tmp_path, server, log):
    answered(
        tmp_path,
        {
            "url": f"{server.url}/?a",
            "headers": {"X-A": None, "X-B": 2, "User-Agent": "mine"},
            "params": {"b": None, "c": {"d": 1}},
        },
    )
    assert (log[0].header("x-a"), log[0].header("x-b"), log[0].header("user-agent")) == (None, "2", "mine")
    assert log[0].target == "/?a&c=%7B%22d%22%3A1%7D"


def test_a_lone_surrogate_is_sent_in_no_place(tmp_path, server, log):
    half = "\ud800"
    for params in (
        {"params": {"a": "${value}"}},
        {"body": "${value}"},
        {"headers": {"X": "${value}"}},
        {"form": {"a": "${value}"}},
    ):
        refused(tmp_path, {"url": server.url, **params}, half)
    refused(tmp_path, {"url": f"{server.url}/${{value}}"}, half)
    assert log == []


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"url": "ftp://example.org/"}, "url must start with http:// or https://, got ftp://"),
        ({"url": "example.org/${value}"}, "url must start with http:// or https:// and a host"),
        ({"url": "http://me:hunter2@example.org/"}, "url cannot contain a user; use auth"),
        ({"url": "http://exa mple.org/"}, "not a valid host"),
        ({"url": "http://example.org:99999/"}, "not a valid host"),
        (
            {"url": "http://example.org/", "method": "FETCH"},
            "method must be one of GET, HEAD, OPTIONS, DELETE, PATCH, POST, PUT, got 'FETCH'",
        ),
        ({"url": "http://example.org/", "body": 1, "form": {}}, "body and form exclude each other"),
        ({"url": "http://example.org/", "auth": {}}, "auth must have either bearer or basic"),
        (
            {"url": "http://example.org/", "auth": {"bearer": "x"}, "headers": {"Authorization": "y"}},
            "exclude each other",
        ),
        (
            {"url": "http://example.org/", "headers": {"Content-Length": "3"}},
            "Content-Length is set by the node itself",
        ),
        ({"url": "http://example.org/", "headers": {"X": "a\r\nY: b"}}, "the value has a line end"),
        ({"url": "http://example.org/", "headers": {"X Y": "a"}}, "'X Y' is not a valid header name"),
        ({"url": "http://example.org/", "allow_hosts": ["10.0.0.0/8"]}, "allow_hosts: '10.0.0.0/8' is not a host"),
        ({"url": "http://example.org/", "allow_hosts": ["${value}"]}, "allow_hosts: '${value}' is not a host"),
        ({"url": "http://example.org/", "timeout": 0}, "timeout"),
        ({"url": "http://example.org/", "max_bytes": 0}, "max_bytes"),
        ({"url": "http://example.org/", "querry": {}}, "unknown key 'querry'"),
    ],
)
def test_what_can_be_known_before_the_first_item_is_told_then(tmp_path, params, message):
    with pytest.raises(gm.WorkflowError, match=re.escape(message)) as caught:
        asked(tmp_path, params)
    assert "hunter2" not in str(caught.value)


def test_a_method_by_template_is_checked_at_the_attempt(tmp_path, server, log):
    assert "got 'BREW'" in refused(tmp_path, {"url": server.url, "method": "${value}"}, "brew")
    answered(tmp_path, {"url": server.url, "method": "${value}"}, "put")
    assert [seen.method for seen in log] == ["PUT"]


def test_connections_are_used_again_within_a_run_and_closed_at_its_end(tmp_path, server, log):
    before = server.connections
    spec = {"inputs": {"n": {}}, "nodes": [{"id": "ask", "type": "http", "params": {"url": f"{server.url}/${{n}}"}}]}
    (tmp_path / "many.json").write_text(json.dumps(spec))
    report = gm.batch(gm.load(tmp_path / "many.json"), [{"n": n} for n in range(40)], concurrency=4)
    assert report.statistics.succeeded == 40
    assert server.connections - before <= 4
    assert len(log) == 40


def test_a_cookie_is_not_kept(tmp_path, server, log):
    server.answer = lambda seen: reply(b"{}", headers=[("Set-Cookie", "a=b"), ("Set-Cookie", "c=d")])
    spec = {"nodes": [{"id": name, "type": "http", "params": {"url": server.url}} for name in ("one", "two")]}
    (tmp_path / "two.json").write_text(json.dumps(spec))
    result = gm.run(gm.load(tmp_path / "two.json"), {})
    assert result.status == "succeeded"
    assert [seen.header("cookie") for seen in log] == [None, None]


def test_proxies_of_the_environment_are_not_trusted(tmp_path, server, log, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    answered(tmp_path, {"url": server.url})
    assert len(log) == 1


@pytest.mark.parametrize(
    "headers",
    [{"Host": "internal"}, {"X\r\nY": "a"}, {"Content-Length": "0"}, {"Transfer-Encoding": "chunked"}, {"": "a"}],
)
def test_headers_that_are_wholly_data_can_not_change_the_request(tmp_path, server, log, headers):
    refused(tmp_path, {"url": server.url, "headers": "${value}"}, headers)
    assert log == []


def test_a_url_may_stand_in_the_environment(tmp_path, server, log, monkeypatch):
    monkeypatch.setenv("HOOK", f"{server.url}/hunter2hunter2/x")
    answered(tmp_path, {"url": {"env": "HOOK"}})
    assert log[0].path == "/hunter2hunter2/x"
    server.answer = lambda seen: reply(b"", 404)
    assert "hunter2" not in refused(tmp_path, {"url": {"env": "HOOK"}})


def test_a_host_may_be_an_address_of_ipv6(tmp_path):
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with Server(host="::1") as server:
        answered(tmp_path, {"url": f"http://[::1]:{server.port}/x"})
        assert server.seen[0].header("host") == f"[::1]:{server.port}"
