"""The http node: what comes back. Each fault of the wire is one failure of a known kind, and none is taken for an answer (G20)."""

import asyncio
import gzip
import json
import time
import zlib
from email.utils import formatdate

import pytest

import graphmill as gm
from graphmill.engine.monitor.events import RetryScheduled
from support.asking import PROMPT, answered, asked, refused, workflow
from support.http_server import Server, reply

SLOW_S = 20.0


@pytest.fixture
def server():
    with Server() as made:
        yield made


def read(folder, server, raw, **params):
    """Ask once; give what the node makes of these bytes."""
    server.answer = lambda seen: raw
    return answered(folder, {"url": server.url, **params})


def failed(folder, server, answer, **params):
    """Ask until that is given up; give the failure of a kind that may go well next time, after all attempts."""
    server.answer = answer if callable(answer) else lambda seen: answer
    result = asked(folder, {"url": server.url, **params})
    assert (result.status, result.error.kind, result.attempts, len(server.seen)) == ("failed", "transient", 3, 3), (
        result.error
    )
    return result.error.message


# --- what is in an answer ---


@pytest.mark.parametrize("status", [304, 404, 429, 503])
def test_a_status_that_is_ok_is_an_answer_like_others(tmp_path, server, status):
    body = json.dumps({"error": "x" * 100_000}).encode()
    found = read(
        tmp_path,
        server,
        reply(b"" if status == 304 else body, status, headers=[("Retry-After", "9")]),
        ok_codes=[status],
    )
    assert (found["status_code"], found["response"]) == (status, None if status == 304 else {"error": "x" * 100_000})
    assert len(server.seen) == 1


def test_a_status_that_is_not_among_those_that_are_ok_is_a_failure_as_ever(tmp_path, server):
    server.answer = lambda seen: reply(b"{}", 403)
    assert "returned 403" in refused(tmp_path, {"url": server.url, "ok_codes": [404]})
    server.answer = lambda seen: reply(b"{", 404)
    assert "is not valid JSON" in asked(tmp_path, {"url": server.url, "ok_codes": [404]}).error.message


def test_a_redirect_is_followed_although_its_status_is_ok(tmp_path, server):
    server.answer = lambda seen: (
        reply(b"[1]") if seen.path == "/there" else reply(b"", 302, headers=[("Location", "/there")])
    )
    assert answered(tmp_path, {"url": server.url, "ok_codes": [302]})["response"] == [1]


@pytest.mark.parametrize("code", [200, 99, 600, "404"])
def test_what_can_not_be_an_ok_status_is_refused_before_anything_is_sent(tmp_path, server, code):
    with pytest.raises(gm.WorkflowError, match="ok_codes"):
        gm.load(workflow(tmp_path, {"url": server.url, "ok_codes": [code]}))


@pytest.mark.parametrize(
    ("kind", "body", "response"),
    [
        ("application/json", b'{"a": [1, null]}', {"a": [1, None]}),
        ("application/json; charset=utf-8", '"é"'.encode(), "é"),
        ("application/problem+json", b"[]", []),
        ("text/json", b"0", 0),
        ("APPLICATION/JSON", b"null", None),
        ("application/json", b"\xef\xbb\xbf{}", {}),
        ('application/json; charset="utf-16"', "[1]".encode("utf-16"), [1]),
        ("application/json", b'"\\ud83d\\ude00"', "😀"),
        ("text/plain", b'{"a": 1}', '{"a": 1}'),
        ("text/html; charset=latin-1", b"<p>\xe9</p>", "<p>é</p>"),
        ("application/xml", b"<a/>", "<a/>"),
        ("", b"plain", "plain"),
        ("text/plain", b"", ""),
    ],
)
def test_a_body_is_read_by_its_content_type(tmp_path, server, kind, body, response):
    output = read(tmp_path, server, reply(body, 201, kind, headers=[("X-A", "1"), ("x-a", "2")]))
    expected = None if body == b"" else response
    assert (output["response"], output["status_code"], output["response_is_binary"]) == (expected, 201, False)
    assert output["headers"]["x-a"] == "1, 2"


@pytest.mark.parametrize("kind", ["image/png", ""])
def test_a_body_that_is_no_text_is_given_as_base64(tmp_path, server, kind):
    output = read(tmp_path, server, reply(b"\x89PNG\r\n\x1a\n\x00", kind=kind))
    assert (output["response"], output["response_is_binary"]) == ("iVBORw0KGgoA", True)


def test_half_a_surrogate_pair_in_json_survives_the_journal(tmp_path, server):
    assert read(tmp_path, server, reply(b'["\\ud800", "\\u0000"]'))["response"] == ["\ud800", "\0"]


def test_a_head_tells_of_a_body_of_any_size_and_has_none(tmp_path, server):
    output = read(tmp_path, server, reply(b"", length=10**12), method="HEAD")
    assert (output["response"], output["headers"]["content-length"]) == (None, "1000000000000")


@pytest.mark.parametrize("status", [204, 205, 200])
def test_no_body_is_null_whatever_the_type_says(tmp_path, server, status):
    assert read(tmp_path, server, reply(b"", status))["response"] is None


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"{", "application/json", "not valid JSON"),
        (b"<html>busy</html>", "application/json", "not valid JSON"),
        (b'{"a": NaN}', "application/json", "NaN is not a JSON number"),
        (b'"\xff"', "application/json", "not valid utf-8"),
        (b"[" * 100_000, "application/json", "not valid JSON"),
        (b"9" * 5000, "application/json", "not valid JSON"),
        (b"\xff\xfe", "text/plain", "not valid utf-8"),
        (b"x", "text/plain; charset=klingon", "'klingon'"),
        (b"x", "text/plain; charset=base64", "'base64'"),
        (b"x", "text/plain; charset=zlib", "'zlib'"),
    ],
)
def test_a_body_that_is_not_what_it_says_is_no_success(tmp_path, server, body, kind, message):
    assert message in failed(tmp_path, server, reply(body, kind=kind))


# --- encodings, and sizes ---


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("X-GZIP", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("identity", bytes),
        ("gzip", lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:])),
    ],
)
@pytest.mark.parametrize("size", [0, 10, 5_000_000])
def test_an_encoded_body_is_decoded(tmp_path, server, encoding, pack, size):
    data = json.dumps("x" * size).encode()
    assert read(tmp_path, server, reply(pack(data), headers=[("Content-Encoding", encoding)]))["response"] == "x" * size


@pytest.mark.parametrize("cut", [1, 8, 20])
def test_an_encoded_body_that_ends_too_early_is_no_success(tmp_path, server, cut):
    body = gzip.compress(b"[]" + b" " * 500)[:-cut]
    assert "response was cut off" in failed(tmp_path, server, reply(body, headers=[("Content-Encoding", "gzip")]))


def test_an_encoded_body_that_is_damaged_is_no_success(tmp_path, server):
    assert "not valid gzip" in failed(
        tmp_path, server, reply(b"not gzip at all", headers=[("Content-Encoding", "gzip")])
    )


def test_an_encoding_that_was_not_asked_for_is_told(tmp_path, server):
    server.answer = lambda seen: reply(b"x", headers=[("Content-Encoding", "br")])
    assert "content encoding 'br'" in refused(tmp_path, {"url": server.url})


@pytest.mark.parametrize("layers", [["gzip"], ["gzip", "gzip"]])
def test_a_bomb_is_decoded_no_further_than_allowed(tmp_path, server, layers):
    bomb = b"\0" * 300_000_000
    for _ in layers:
        bomb = gzip.compress(bomb, 9)
    server.answer = lambda seen: reply(bomb, headers=[("Content-Encoding", ", ".join(layers))])
    message = refused(tmp_path, {"url": server.url})
    assert (
        "larger than 33,554,432 bytes (max_bytes)" if len(layers) == 1 else "content encoding 'gzip, gzip'"
    ) in message


@pytest.mark.parametrize("is_told", [True, False])
def test_a_body_is_read_no_further_than_allowed(tmp_path, server, is_told):
    async def endless(writer):
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()

    def answer(seen):
        async def send(writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
            await endless(writer)

        return reply(b"x" * 100, length=10**15, kind="text/plain") if is_told else send

    server.answer = answer
    assert "larger than 1,000,000 bytes (max_bytes)" in refused(tmp_path, {"url": server.url, "max_bytes": 1_000_000})


# --- faults of the wire ---

CUT = {
    "before a byte": b"",
    "in the status line": b"HTTP/1.1 20",
    "in the headers": b"HTTP/1.1 200 OK\r\nContent-Type: appl",
    "after the headers": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n",
    "in the body": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nab",
    "in a chunk's size": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
    "in a chunk": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "between chunks": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    "before the last line": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
}


@pytest.mark.parametrize("is_reset", [True, False])
@pytest.mark.parametrize("sent", CUT.values(), ids=CUT)
def test_a_connection_that_ends_before_the_answer_does_is_no_success(tmp_path, server, sent, is_reset):
    def answer(seen):
        async def send(writer):
            writer.write(sent)
            await writer.drain()
            if is_reset:
                writer.transport.abort()
            return False

        return send

    failed(tmp_path, server, answer)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(50_000)) + b"\r\n",
    ],
    ids=[
        "ssh",
        "no status",
        "tls",
        "negative",
        "two lengths",
        "no chunk",
        "a long header",
        "a long line",
        "many headers",
    ],
)
def test_what_is_no_http_is_no_success(tmp_path, server, raw):
    def answer(seen):
        async def send(writer):
            writer.write(raw)
            await writer.drain()
            return False

        return send

    failed(tmp_path, server, answer)


def drip(writer_first, piece):
    """Send something, and then so little at a time that it would take for ever."""

    def answer(seen):
        async def send(writer):
            writer.write(writer_first)
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)

        return send

    return answer


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"", b""),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
    ids=["never a byte", "continue for ever", "headers", "length", "until the end", "chunks"],
)
def test_the_time_is_for_the_whole_answer_however_it_drips(tmp_path, server, first, piece):
    server.answer = drip(first, piece)
    began = time.monotonic()
    result = asked(tmp_path, {"url": server.url, "timeout": 0.3}, retry={"attempts": 1})
    assert time.monotonic() - began < SLOW_S
    assert (result.status, result.error.kind) == ("timed_out", "timeout")
    assert result.error.message == f"GET {server.url}/: timed out after 0.3 s (in node 'ask')"


def test_a_time_out_names_the_url_without_what_is_secret_in_it(tmp_path, server, monkeypatch):
    monkeypatch.setenv("PLANTED", f"{server.url}/of/hunter2hunter2")
    server.answer = drip(b"", b"")
    params = {"url": {"env": "PLANTED"}, "timeout": 0.3, "params": {"key": "swordfish"}}
    message = asked(tmp_path, params, retry={"attempts": 1}).error.message
    assert message.startswith("GET ")
    assert message.endswith("?key=…: timed out after 0.3 s (in node 'ask')")
    assert not any(word in message for word in ("hunter2", "swordfish"))


def test_nobody_there_is_tried_again(tmp_path, server):
    with Server() as other:
        url = other.url
    result = asked(tmp_path, {"url": url})
    assert (result.error.kind, result.attempts) == ("transient", 3)
    assert "cannot connect: " in result.error.message


def test_a_host_that_is_not_found_is_tried_again(tmp_path):
    result = asked(tmp_path, {"url": "http://nowhere.invalid/"})
    assert (result.error.kind, result.attempts) == ("transient", 3)
    assert "GET http://nowhere.invalid/: host not found: " in result.error.message


# --- statuses ---


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 409, 410, 413, 422, 451, 499, 300, 304, 305])
def test_an_answer_that_will_stay_the_same_fails_for_good_with_the_beginning_of_what_it_says(tmp_path, server, status):
    server.answer = lambda seen: reply(
        b"" if status == 304 else b"no such\n\x1b[31m user" + b"!" * 5000, status, "text/plain"
    )
    message = refused(tmp_path, {"url": f"{server.url}/a?key=hunter2"})
    assert f"GET {server.url}/a?key=… returned {status}" in message
    assert len(message) < 600
    assert "hunter2" not in message
    assert "\x1b" not in message


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503, 504, 520])
def test_an_answer_that_may_change_is_asked_for_again(tmp_path, server, status):
    assert f"returned {status}" in failed(tmp_path, server, reply(b"later", status, "text/plain"))


def endless(head):
    def answer(seen):
        async def send(writer):
            writer.write(head)
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()

        return send

    return answer


@pytest.mark.parametrize("encoding", ["gzip", "br", "nonsense", "identity"])
def test_a_status_stands_whatever_becomes_of_the_body_that_explains_it(tmp_path, server, encoding):
    head = b"Content-Encoding: " + encoding.encode() + b"\r\nContent-Type: text/plain\r\n\r\n"
    server.answer = endless(b"HTTP/1.1 404 Not Found\r\n" + head)
    assert "returned 404 Not Found" in refused(tmp_path, {"url": server.url})
    server.seen.clear()
    assert "returned 500" in failed(tmp_path, server, endless(b"HTTP/1.1 500 Oh\r\n" + head))


def test_of_a_long_body_that_explains_a_status_the_head_is_told_however_large_its_first_piece(tmp_path, server):
    body = gzip.compress(b"no such user " + b"x" * (1 << 20))
    server.answer = lambda seen: reply(body, 404, "text/plain", headers=[("Content-Encoding", "gzip")])
    assert "returned 404 Not Found: no such user xxx" in refused(tmp_path, {"url": server.url})


def test_a_status_stands_though_the_connection_breaks_behind_it(tmp_path, server):
    server.answer = lambda seen: reply(
        b"no such user", 404, "text/plain", length=1000, headers=[("Connection", "close")]
    )
    assert "returned 404 Not Found: no such user" in refused(tmp_path, {"url": server.url})


def test_the_body_of_a_redirect_is_not_waited_for(tmp_path, server):
    lead = endless(b"HTTP/1.1 302 Found\r\nLocation: /next\r\n\r\n")
    server.answer = lambda seen: reply(b"{}") if seen.path == "/next" else lead(seen)
    answered(tmp_path, {"url": server.url})


def waits_of(folder, server, headers, status=429):
    """Ask a server that is busy once; give the waits that this led to."""
    answers = iter([reply(b"", status, headers=headers)])
    server.answer = lambda seen: next(answers, reply(b"{}"))
    events = []
    policy = gm.Policy(retry=gm.Retry(attempts=1, wait_s=0, cap_s=0, jitter=False, throttle_budget_s=0.3))
    graph = gm.load(workflow(folder, {"url": server.url}))
    (result,) = gm.batch(graph, [{}], policy=policy, observers=[events.append]).results()
    assert (result.status, result.attempts) == ("succeeded", 2)
    return [event.failure.retry_after_s for event in events if isinstance(event, RetryScheduled)]


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, [("Retry-After", "0.2")], 0.2),
        (429, [("Retry-After", "7")], 7),
        (503, [("Retry-After", "7")], 7),
        (429, [("Retry-After", "99999999999")], 900),
        (429, [("Retry-After", formatdate(1e9 + 30, usegmt=True)), ("Date", formatdate(1e9, usegmt=True))], 30),
        (429, [("Retry-After", formatdate(1e9, usegmt=True))], 0),
        (429, [("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT")], 900),
        (429, [("Retry-After", "soon")], None),
        (429, [("Retry-After", "-5")], None),
        (429, [("Retry-After", "1e999")], None),
        (429, [], None),
    ],
)
def test_a_throttle_uses_no_attempt_and_waits_as_long_as_the_server_says(tmp_path, server, status, headers, seconds):
    assert waits_of(tmp_path, server, headers, status) == [seconds]


def test_a_server_that_hangs_up_on_a_kept_connection_is_one_failed_attempt_and_no_hidden_second_request(
    tmp_path, server
):
    spec = {
        "nodes": [
            {"id": name, "type": "http", "params": {"url": f"{server.url}/{name}", "method": method}}
            for name, method in (("one", "GET"), ("two", "PUT"))
        ]
    }
    (tmp_path / "two.json").write_text(json.dumps(spec))
    server.answer = lambda seen: reply(b"{}") if seen.path == "/one" else None
    (result,) = gm.batch(gm.load(tmp_path / "two.json"), [{}], policy=PROMPT).results()
    assert (result.status, result.error.kind) == ("failed", "ambiguous")
    assert [seen.path for seen in server.seen] == ["/one", "/two"]
