"""Models over a real wire: how often a server is asked, and with what."""

import asyncio
import gzip
import json

import pytest

import graphmill as gm
from support.model_server import ModelServer, reply, said

KEY = "sk-planted-0123456789abcdef"


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with ModelServer() as found:
        settings = (
            f"providers: {{local: {{protocol: openai, address: '{found.url}/v1'}}}}\nmodels: {{small: local/m}}\n"
        )
        (tmp_path / "graphmill.yaml").write_text(settings)
        (tmp_path / "w.yaml").write_text(
            "{inputs: {text: {}}, nodes: [{id: ask, type: llm, params: {model: small, prompt: '${text}'}}]}"
        )
        yield found


def run(texts=("hi",), **options):
    options.setdefault("policy", gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0)))
    return list(
        gm.batch(
            "w.yaml", [{"id": str(number), "text": text} for number, text in enumerate(texts)], **options
        ).results()
    )


def test_a_server_of_one_s_own_is_asked_with_no_key_but_its_own(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.answer = lambda asked: said(f"heard {asked.data['messages'][0]['content']}")
    (result,) = run()
    assert (result.output["response"], result.usage["input_tokens"], result.usage["output_tokens"]) == (
        "heard hi",
        5,
        2,
    )
    (asked,) = server.asked
    assert (asked.method, asked.target, asked.data["model"]) == ("POST", "/v1/chat/completions", "m")
    assert KEY not in str(asked.headers)


def test_the_environment_s_address_and_key_are_those_of_the_protocol_s_own_name(server, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v9")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "graphmill.yaml").write_text("models: {small: openai/gpt}")
    server.answer = lambda _: said("yes")
    assert run()[0].is_success
    assert (server.asked[0].target, server.asked[0].headers["authorization"]) == (
        "/v9/chat/completions",
        f"Bearer {KEY}",
    )


def test_there_is_one_layer_of_retries(server):
    server.answer = lambda _: reply({"error": {"message": "down"}}, 500)
    (result,) = run()
    assert (result.status, result.attempts, len(server.asked), result.usage["requests"]) == ("failed", 3, 3, 3)


def test_a_throttled_call_uses_no_attempt(server):
    server.answer = lambda _: (
        said("yes")
        if len(server.asked) > 4
        else reply({"error": {"message": "slow"}}, 429, headers={"Retry-After": "0"})
    )
    (result,) = run(policy=gm.Policy(retry=gm.Retry(attempts=1, wait_s=0, cap_s=0)))
    assert (result.status, len(server.asked)) == ("succeeded", 5)


def test_an_over_long_prompt_fails_alone_beside_good_ones(server):
    def answered(asked):
        is_long = len(asked.body) > 5000
        error = {
            "message": "maximum context length is 10 tokens",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }
        return reply({"error": error}, 400) if is_long else said("fine")

    server.answer = answered
    results = run(["a", "b" * 10_000, "c"])
    assert [result.status for result in results] == ["succeeded", "failed", "succeeded"]
    assert (results[1].error.kind, len(server.asked)) == ("permanent", 3)


@pytest.mark.parametrize("is_message_long", [True, False])
def test_of_a_long_error_the_head_is_told_however_large_its_first_piece(server, is_message_long):
    message = 'no "such" thing ' + "x" * (1 << 20 if is_message_long else 0)
    error = {"error": {"message": message, "type": "invalid", "param": "x" * (1 << 20)}}
    body = gzip.compress(json.dumps(error).encode())
    server.answer = lambda _: reply(body, 400, headers={"Content-Encoding": "gzip"})
    (result,) = run()
    assert (result.error.kind, len(server.asked)) == ("permanent", 1)
    assert 'returned 400: no "such" thing' in result.error.message


def test_connections_are_used_again(server):
    server.answer = lambda _: said("fine")
    assert all(result.is_success for result in run(["x"] * 50, policy=gm.Policy(concurrency=5)))
    assert (len(server.asked), server.connections <= 5) == (50, True)


def test_a_schema_is_asked_for_by_the_protocol_and_answers_are_asked_for_again(server, tmp_path):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    node = {"id": "ask", "type": "llm", "params": {"model": "small", "prompt": "x", "output_schema": schema}}
    (tmp_path / "w.yaml").write_text(json.dumps({"nodes": [node]}))
    server.answer = lambda asked: said('{"a": 1}' if len(asked.data["messages"]) > 1 else '{"a": "one"}')
    (result,) = gm.batch("w.yaml", [{}]).results()
    assert (result.output["response"], result.usage["requests"], len(server.asked)) == ({"a": 1}, 2, 2)
    assert "schema" in json.dumps(server.asked[0].data["response_format"])


@pytest.mark.parametrize("text", ["hi", "x" * 2_000_000], ids=["small", "large"])
def test_a_request_that_is_no_longer_waited_for_counts_as_one(server, tmp_path, text):
    async def never(writer):
        await writer.drain()
        return await asyncio.Event().wait()

    async def function(item):
        return (await gm.complete("small", item["text"], timeout_s=0.5)).text

    server.answer = lambda _: never
    twice, items = gm.Retry(attempts=2, wait_s=0, cap_s=0), [{"text": text}]
    (node,) = gm.batch("w.yaml", items, policy=gm.Policy(timeout_s=0.5, retry=twice)).results()
    assert (node.status, node.usage["requests"], len(server.asked)) == ("timed_out", 2, 2)
    assert node.cost_usd is None  # nobody knows what it took
    (called,) = gm.batch(function, items, policy=gm.Policy(retry=twice)).results()
    assert (called.status, called.usage["requests"], len(server.asked)) == ("failed", 2, 4)


def test_an_attempt_s_time_holds_against_a_server_that_never_answers(server):
    async def never(writer):
        await writer.drain()
        return await asyncio.Event().wait()

    server.answer = lambda _: never
    (result,) = run(policy=gm.Policy(timeout_s=0.3, retry=gm.Retry(attempts=1)))
    assert (result.status, result.error.kind) == ("timed_out", "timeout")
