"""Every provider, over a real wire to a server of ours: what is a success, and that nothing else is taken for one."""

import asyncio
import json
import sys
import time
import zlib

import msgspec
import pytest

from graphmill.core.errors import AttemptError, Throttled, Transient, Unavailable
from graphmill.core.model_call import FinishReason, Message, ModelRequest
from graphmill.core.usage import RateLimit, Usage
from graphmill.graph.registry import find_provider, provider_registry
from support import http_server, model_server
from support.model_apis import APIS
from support.model_rows import ENDS, ERRORS, WIRE
from support.model_server import ModelServer, reply

KEY = "sk-secret-0123456789abcdef"
PROMPT = "What is the capital of France, asked by Gisela M\u00fcller?"
REQUEST = ModelRequest(
    model="gpt-5-mini", messages=(Message("system", "Be brief, dear assistant."), Message("user", PROMPT))
)
SCRIPTED = "scripted"
SLOW = ("silence", "slow drip", "slow drip of the head", "half-open before the answer", "half-open within the answer")


class Caller:
    """Calls one provider, with a key in hand and a header that is as secret."""

    def __init__(self, name, address, timeout_s=20.0):
        self.provider = find_provider(name)
        self.given = {
            "address": f"{address}?code=address-secret-555" if address.startswith("http") else address,
            "key": KEY,
            "headers": {"x-team": "team-secret-9876"},
            "timeout_s": timeout_s,
        }

    def __call__(self, request=REQUEST):
        return asyncio.run(
            self._with_session(lambda session: self.provider.complete(request, session=session, **self.given))
        )

    def models(self):
        return asyncio.run(self._with_session(lambda session: self.provider.models(session=session, **self.given)))

    async def _with_session(self, act):
        session = self.provider.open()
        try:
            return await act(session)
        finally:
            await session.close()


@pytest.fixture(params=APIS)
def name(request):
    return request.param


@pytest.fixture
def api(name):
    return APIS[name]


@pytest.fixture
def server(api):
    with ModelServer(lambda asked: reply(api.answer)) as running:
        yield running


@pytest.fixture
def call(name, server):
    return Caller(name, f"{server.url}/v1")


def error_of(call, request=REQUEST):
    with pytest.raises(AttemptError) as caught:
        call(request)
    error = caught.value
    said = str(error)
    for secret in (KEY, KEY[:12], "team-secret", "address-secret"):
        assert secret not in said
    assert len(said) <= 500
    assert said.isprintable()
    return error


def test_all_of_ours_are_found():
    assert provider_registry().names == ["anthropic", "gemini", "local", "openai", "scripted"]
    assert [find_provider(name).name for name in provider_registry().names] == provider_registry().names


def test_an_answer_is_read_with_all_that_it_used(call, api, server):
    response = call()
    assert (response.text, response.finish_reason, response.error()) == ("Paris.", FinishReason.STOP, None)
    assert response.usage == Usage(requests=1, unpriced=1, **api.usage)
    assert response.id
    assert response.model
    assert len(server.asked) == 1


def test_the_key_goes_in_its_header_and_nowhere_else(call, api, server):
    call()
    (asked,) = server.asked
    assert (asked.method, asked.target) == ("POST", f"{api.path}?code=address-secret-555")
    assert asked.headers[api.key_header].endswith(KEY)
    assert asked.headers["x-team"] == "team-secret-9876"
    assert [header for header, value in asked.headers.items() if KEY in value] == [api.key_header]
    assert KEY not in asked.target
    assert KEY.encode() not in asked.body


def test_without_a_key_none_is_sent(call, api, server):
    call.given["key"] = None
    call()
    assert api.key_header not in server.asked[0].headers


def test_calls_of_one_session_share_a_connection(call, server):
    async def thrice(session):
        for _ in range(3):
            await call.provider.complete(REQUEST, session=session, **call.given)

    asyncio.run(call._with_session(thrice))
    assert (len(server.asked), server.connections) == (3, 1)


def test_what_a_server_sends_unasked_is_nobodys_answer(call, api, server):
    async def thrice(session):
        loop, sent = asyncio.get_running_loop(), asyncio.Event()

        async def answer_and_more(writer):
            writer.write(reply(api.answer))
            await writer.drain()
            if len(server.asked) == 1:
                await asyncio.sleep(0.05)  # not in one piece with the answer
                writer.write(reply(b'"unasked"'))
                await writer.drain()
                loop.call_soon_threadsafe(sent.set)
            return True

        server.answer = lambda _: answer_and_more
        for _ in range(3):
            await call.provider.complete(REQUEST, session=session, **call.given)
            await sent.wait()
            await asyncio.sleep(0.05)  # until it has come

    asyncio.run(call._with_session(thrice))
    assert (len(server.asked), server.connections) == (3, 2)


@pytest.mark.parametrize("row", WIRE)
def test_a_fault_of_the_wire_is_one_kind_of_error_after_one_request(call, api, server, row):
    kind, play = WIRE[row]
    server.answer = lambda _: play(api)
    call.given["timeout_s"] = within_s = 3.0 if row == "an error that drips" else 0.4 if row in SLOW else 60.0
    began = time.monotonic()
    error = error_of(call)
    assert row in SLOW or time.monotonic() - began < within_s  # it is not the time-out that tells
    assert type(error) is kind
    assert error.usage.requests == 1
    assert len(server.asked) == server.connections == 1


def test_a_time_out_says_how_long_it_was(call, api, server):
    server.answer = lambda _: model_server.dripping(reply(api.answer), every_s=0.02)
    call.given["timeout_s"] = 0.25
    assert "no complete response within 0.25 s" in str(error_of(call))


@pytest.mark.parametrize("row", ERRORS)
def test_an_error_of_the_api_is_one_kind_of_error_after_one_request(call, api, server, row):
    status, data = api.errors[row]
    server.answer = lambda _: reply(data, status, headers={"retry-after": "7"})
    error = error_of(call)
    assert type(error) is ERRORS[row]
    assert str(error).startswith(f"{call.provider.name} returned {status}: ")
    assert (error.usage, len(server.asked)) == (Usage(requests=1), 1)
    assert error.limits.retry_after_s == (38 if (row, call.provider.name) == ("throttled", "gemini") else 7)
    if isinstance(error, Throttled | Transient):
        assert error.retry_after_s == error.limits.retry_after_s


@pytest.mark.parametrize("row", ENDS)
def test_an_answer_that_is_no_whole_one_is_an_error_that_keeps_its_usage(call, api, server, row):
    if api.ends[row] is None:
        assert (call.provider.name, row) in {("anthropic", "content_filter"), ("gemini", "refusal")}
        return
    server.answer = lambda _: reply(api.ends[row])
    response = call()
    error = response.error()
    assert response.finish_reason == row.replace("other_end", "other")
    assert type(error) is ENDS[row]
    assert error.usage == response.usage
    assert response.usage.input_tokens > 0
    assert len(server.asked) == 1


def test_an_empty_answer_tells_what_it_used(call, api, server):
    server.answer = lambda _: reply(api.empty)
    assert error_of(call).usage.input_tokens > 0


def test_an_error_in_an_answer_tells_what_was_used_up_to_it(call, api, server):
    server.answer = lambda _: reply({**api.answer, **api.error_in_answer})
    error = error_of(call)
    assert (type(error), error.usage) == (Transient, Usage(requests=1, unpriced=1, **api.usage))


def test_a_server_that_is_not_there_is_unavailable_and_nothing_was_used(call, server):
    call.given["address"] = "http://127.0.0.1:1/v1"
    error = error_of(call)
    assert (type(error), error.usage, len(server.asked)) == (Unavailable, None, 0)
    assert "cannot connect" in str(error)


@pytest.mark.parametrize("address", ["http://[::/v1", "127.0.0.1:1", "http:///v1", "", "ftp://127.0.0.1/v1"])
def test_an_address_that_is_none_is_unavailable(call, address):
    call.given["address"] = address
    assert type(error_of(call)) is Unavailable


def test_a_server_that_speaks_no_tls_is_unavailable(call, server):
    address = server.url.replace("http://", "https://")
    call.given |= {"address": address, "timeout_s": 0.5}  # the server waits for the rest of what it takes for a request
    error = error_of(call)
    assert (type(error), error.usage, server.asked) == (Unavailable, None, [])


@pytest.mark.skipif(sys.platform != "linux", reason="only here is a connection beyond the backlog left waiting")
def test_a_server_that_takes_no_connection_is_unavailable_before_the_time_is_up(call):
    with http_server.unreachable() as url:
        call.given |= {"address": url, "timeout_s": 0.5}
        error = error_of(call)
        assert type(error) is Unavailable
        assert "timed out while connecting" in str(error)


def test_a_host_whose_name_is_not_found_in_time_is_unavailable_and_nothing_was_used(call, monkeypatch):
    async def resolve(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr("aiohttp.resolver.ThreadedResolver.resolve", resolve)
    call.given |= {"address": "http://nowhere.invalid/v1", "timeout_s": 0.5}
    error = error_of(call)
    assert (type(error), error.usage) == (Unavailable, None)
    assert "timed out while connecting" in str(error)


def test_a_connection_that_is_reset_as_it_is_made_is_no_answer(call, server):
    server.is_deaf = True
    assert type(error_of(call)) in (Transient, Unavailable)
    assert (server.asked, server.connections) == ([], 1)


@pytest.mark.parametrize("kind", ["text/plain", "text/html", "", "application/octet-stream"])
def test_what_an_answer_says_of_its_type_does_not_count(call, api, server, kind):
    server.answer = lambda _: reply(api.answer, kind=kind)
    assert call().text == "Paris."


@pytest.mark.parametrize("form", ["gzip", "deflate", "chunks"])
def test_an_answer_may_come_compressed_or_in_chunks(call, api, server, form):
    body = json.dumps(api.answer).encode()
    forms = {
        "gzip": model_server.gzipped(body),
        "deflate": reply(zlib.compress(body), headers={"Content-Encoding": "deflate"}),
        "chunks": model_server.chunked(body, is_cut=False),
    }
    server.answer = lambda _: forms[form]
    assert call().text == "Paris."


@pytest.mark.parametrize("where", ["error", "answer"])
def test_secrets_that_a_server_repeats_are_redacted_and_the_prompt_is_not(call, api, server, where):
    def echo(asked):
        said = f"refused {asked.headers[api.key_header]} ({KEY[3:17]}) of {asked.headers['x-team']} at {asked.target} for {PROMPT}"
        data = {"error": {"message": said, "type": "invalid_request_error", "code": said, "status": said}}
        return reply(data, 400 if where == "error" else 200)

    server.answer = echo
    said = str(error_of(call))
    assert "refused" in said
    assert PROMPT in said


@pytest.mark.parametrize("name", ["openai", "anthropic"], indirect=False)
def test_limits_are_read_from_success_and_from_error_alike(name):
    api = APIS[name]
    with ModelServer(lambda asked: reply(api.answer, headers=api.limit_headers)) as server:
        call = Caller(name, f"{server.url}/v1")
        told = call().limits
        assert told.requests == RateLimit(allowed=60, remaining=59, reset_s=1.0)
        assert told.tokens == RateLimit(allowed=150_000, remaining=149_984, reset_s=360.0)
        server.answer = lambda _: reply(
            api.errors["throttled"][1], 429, headers={**api.limit_headers, "retry-after-ms": "1500"}
        )
        error = error_of(call)
        assert (error.limits.tokens, error.retry_after_s) == (told.tokens, 1.5)
        server.answer = lambda _: reply({**api.empty}, headers=api.limit_headers)
        assert error_of(call).limits.tokens == told.tokens


def test_a_wait_may_be_given_as_a_date(call, api, server):
    headers = {"retry-after": "Mon, 16 Nov 2026 10:01:30 GMT", "date": "Mon, 16 Nov 2026 10:00:00 GMT"}
    server.answer = lambda _: reply(b"", 429, headers=headers)
    assert error_of(call).retry_after_s == 90.0


def test_models_are_listed_by_their_own_names_with_one_request(call, api, server):
    server.answer = lambda _: reply(api.models)
    assert call.models() == ["gpt-5-mini", "o4-mini"]
    (asked,) = server.asked
    assert (asked.method, asked.target.partition("?")[0], asked.body) == ("GET", "/v1/models", b"")


def test_a_list_of_models_that_is_refused_is_an_error_of_the_same_kinds(call, api, server):
    status, data = api.errors["key_refused"]
    server.answer = lambda _: reply({**data, "said": KEY}, status)
    with pytest.raises(Unavailable):
        call.models()
    server.answer = lambda _: model_server.reset_after(b"HTTP/1.1 200 Said\r\n")
    with pytest.raises(Transient):
        call.models()
    assert len(server.asked) == 2


def test_a_call_that_is_cancelled_ends_at_once_and_keeps_no_connection(call, server):
    server.answer = lambda _: model_server.silent()

    async def cancelled(session):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await call.provider.complete(REQUEST, session=session, **call.given)

    call.given["timeout_s"] = 3600.0
    asyncio.run(call._with_session(cancelled))


def test_extra_entries_go_over_all_others_and_null_takes_one_out(call, server):
    request = msgspec.structs.replace(
        REQUEST, temperature=0.5, extra={"temperature": 0.25, "top_k": 5, "metadata": {"a": {"b": 1}}}
    )
    call(request)
    assert {**server.asked[0].data, "temperature": 0.25, "top_k": 5, "metadata": {"a": {"b": 1}}} == server.asked[
        0
    ].data
    (first, *_) = [name for name in server.asked[0].data if name in ("messages", "contents")]
    call(msgspec.structs.replace(request, extra={first: None}))
    assert first not in server.asked[1].data


@pytest.mark.parametrize(
    "headers", [{"x-bad": "a\r\nx-more: b"}, {"x-bad": "a\0b"}, {"x bad": "a"}, {"": "a"}, {"x-bad": "\ud800"}]
)
def test_a_header_that_can_not_be_sent_is_refused_unsent(call, server, headers):
    call.given["headers"] = headers
    error = error_of(call)
    assert (type(error), error.usage, server.asked) == (Unavailable, None, [])
    assert "the header" in str(error)


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}", f"{KEY}\0", "\ud800key"])
def test_a_key_that_no_header_can_carry_is_refused_unsent(call, server, key):
    call.given["key"] = key
    error = error_of(call)
    assert (type(error), server.asked) == (Unavailable, [])
    assert "the key contains a line end" in str(error)


@pytest.mark.parametrize(
    "row", [*ENDS, *ERRORS, "truncated", "web_page", "bad_json", "empty", "error_in_answer", "silence"]
)
def test_the_same_faults_by_a_script_are_of_the_same_kinds(tmp_path, row):
    script = tmp_path / "script.yaml"
    script.write_text(f"rules:\n- {{fault: {row}, retry_after_s: 7}}\n", encoding="utf-8")
    call = Caller(SCRIPTED, str(script), timeout_s=0.05)
    if row in ENDS:
        response = call()
        assert type(response.error()) is ENDS[row]
        assert response.usage.input_tokens > 0
        return
    error = error_of(call)
    assert type(error) is (ERRORS[row] if row in ERRORS else WIRE[row][0])
    assert row == "silence" or not isinstance(error, Throttled | Transient) or error.retry_after_s == 7
    assert error.usage.requests == 1
