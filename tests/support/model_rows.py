"""Every way in which a call of a model can go wrong, and the one kind that each of them is, whichever provider it meets."""

import json

from graphmill.core.errors import Permanent, Throttled, Transient, Unavailable
from support import model_server as server

PAGE = b"<!DOCTYPE html><html><body><h1>Welcome to the hotel's network</h1></body></html>"
_HEAD = b"HTTP/1.1 200 Said\r\nContent-Type: application/json\r\n"
_BOMB_BYTES = 64 << 20


def _whole(api):
    return json.dumps(api.answer).encode()


def _with_length(body):
    return _HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


WIRE = {
    "truncated": (Transient, lambda api: server.then_closed(_with_length(_whole(api))[:-20])),
    "cut within JSON": (Transient, lambda api: server.reply(_whole(api)[:-20])),
    "chunk cut half-way": (Transient, lambda api: server.then_closed(server.chunked(_whole(api), is_cut=True))),
    "web_page": (Unavailable, lambda api: server.reply(PAGE, kind="text/html")),
    "page that says it is JSON": (Unavailable, lambda api: server.reply(PAGE)),
    "bad_json": (Transient, lambda api: server.reply(b"{'answer': 1}")),
    "NaN": (Transient, lambda api: server.reply(_whole(api)[:-1] + b', "x": NaN}')),
    "no body": (Transient, lambda api: server.reply(b"")),
    "no object": (Transient, lambda api: server.reply(b"[1]")),
    "deeper than anybody reads": (Transient, lambda api: server.reply(b"[" * 100_000)),
    "events though none were asked for": (
        Transient,
        lambda api: server.reply(b"data: {}\n\n", kind="text/event-stream"),
    ),
    "invalid UTF-8": (Transient, lambda api: server.reply(_whole(api).replace(b"Paris", b"Pa\xffris"))),
    "empty": (Transient, lambda api: server.reply(api.empty)),
    "error_in_answer": (Transient, lambda api: server.reply(api.error_in_answer)),
    "gzip bomb": (Permanent, lambda api: server.gzipped(b"[" + b" " * _BOMB_BYTES + b"]")),
    "gzip that is cut": (
        Transient,
        lambda api: server.reply(server.gzip.compress(_whole(api))[:-9], headers={"Content-Encoding": "gzip"}),
    ),
    "gzip that is none": (Transient, lambda api: server.reply(_whole(api), headers={"Content-Encoding": "gzip"})),
    "unknown encoding": (Transient, lambda api: server.reply(_whole(api), headers={"Content-Encoding": "zstd"})),
    "says it is too large": (
        Permanent,
        lambda api: server.then_half_open(_HEAD + b"Content-Length: 99999999999\r\n\r\n{"),
    ),
    "body without end": (Permanent, lambda api: server.flooding(_HEAD + b"\r\n{", b" " * (1 << 20))),
    "header bomb, many": (Transient, lambda api: server.flooding(_HEAD, b"x-bomb: 1\r\n" * 1000)),
    "header bomb, one": (Transient, lambda api: server.flooding(_HEAD + b"x-bomb: ", b"1" * 65536)),
    "no HTTP": (Transient, lambda api: server.then_closed(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
    "slow drip": (Transient, lambda api: server.dripping(_with_length(_whole(api)), every_s=0.02)),
    "slow drip of the head": (Transient, lambda api: server.dripping(_HEAD, every_s=0.05)),
    "silence": (Transient, lambda api: server.silent()),
    "half-open before the answer": (Transient, lambda api: server.then_half_open(b"")),
    "half-open within the answer": (Transient, lambda api: server.then_half_open(_with_length(_whole(api))[:-20])),
    "reset before the answer": (Transient, lambda api: server.reset_after(b"")),
    "reset within the status": (Transient, lambda api: server.reset_after(b"HTTP/1.1 2")),
    "reset within the head": (Transient, lambda api: server.reset_after(_HEAD)),
    "reset within the body": (Transient, lambda api: server.reset_after(_with_length(_whole(api))[:-20])),
    "redirect": (Unavailable, lambda api: server.reply(b"", 307, headers={"Location": "http://127.0.0.1:1/v1"})),
    "an error without words": (Transient, lambda api: server.reply(b"", 502)),
    "an error that is a page": (Unavailable, lambda api: server.reply(PAGE, 403, kind="text/html")),
    "an error that is cut": (Throttled, lambda api: server.then_closed(server.reply(b'{"error"', 429)[:-4])),
    "an error that drips": (Throttled, lambda api: server.dripping(server.reply(b"{}" * 99, 429), every_s=0.02)),
    "an error that is a bomb": (Transient, lambda api: _error_bomb()),
}


def _error_bomb():
    return server.reply(server.gzip.compress(b" " * _BOMB_BYTES), 500, headers={"Content-Encoding": "gzip"})


ERRORS = {
    "throttled": Throttled,
    "overloaded": Throttled,
    "server_error": Transient,
    "no_credit": Unavailable,
    "key_refused": Unavailable,
    "model_missing": Unavailable,
    "too_long": Permanent,
}
ENDS = {"length": Permanent, "refusal": Permanent, "content_filter": Permanent, "other_end": Transient}
