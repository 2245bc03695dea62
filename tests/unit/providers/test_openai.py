import json

import pytest

from graphmill.core.errors import Permanent, Throttled, Transient, Unavailable
from graphmill.core.model_call import FinishReason, Image, Message, ModelRequest, Text, TokenLogprob, Tool, ToolCall
from graphmill.core.usage import LOST
from graphmill.graph.registry import find_provider
from graphmill.providers.openai import OpenAI, is_strict
from support.model_apis import OPENAI_ANSWER, changed

OPENAI = find_provider("openai")
HOME = OPENAI.default_address
ASK = Message("user", "hi")
CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def asked(address=HOME, **more):
    return OpenAI().build_body(ModelRequest(**{"model": "gpt-5-mini", "messages": (ASK,), **more}), address)


def read(data):
    return OPENAI.read_response(data, None, None)


def error(status, data, headers=()):
    return OPENAI.classify(status, dict(headers), json.dumps(data).encode())


def test_what_is_not_set_is_not_sent():
    assert asked() == {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "hi"}]}


def test_every_setting_is_sent_by_its_name():
    tool = Tool(name="add", description="Adds.", parameters={"type": "object"})
    body = asked(
        temperature=0.0,
        top_p=0.5,
        seed=0,
        reasoning_effort="low",
        stop=("a", "b"),
        logprobs=2,
        tools=(tool, Tool(name="now")),
        max_tokens=9,
    )
    del body["model"], body["messages"]
    assert body == {
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": 0,
        "reasoning_effort": "low",
        "stop": ["a", "b"],
        "logprobs": True,
        "top_logprobs": 2,
        "max_completion_tokens": 9,
        "tools": [
            {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}},
            {
                "type": "function",
                "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
            },
        ],
    }


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (HOME, "max_completion_tokens"),
        ("https://me.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("http://localhost:8000/v1", "max_tokens"),
        ("https://openrouter.ai/api/v1", "max_tokens"),
        ("https://notopenai.com/v1", "max_tokens"),
    ],
)
def test_the_most_tokens_go_by_the_name_that_the_server_knows(address, name):
    assert asked(address, max_tokens=5)[name] == 5


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_name_for_the_most_tokens_in_extra_counts_alone(name):
    assert not {"max_tokens", "max_completion_tokens"} & set(asked(max_tokens=5, extra={name: 7}))


def test_messages_carry_images_calls_and_results():
    call = ToolCall(id="c1", name="add", arguments={"a": 1})
    messages = (
        Message("system", "Be brief."),
        Message("user", (Text("what?"), Image(data="QQ==", media_type="image/jpeg"), Image(url="https://x.org/a.png"))),
        Message("assistant", "", (call,)),
        Message("tool", "2", (), "c1"),
    )
    assert asked(messages=messages)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what?"},
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QQ=="}},
                {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}],
        },
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
    ]


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({"type": "object", "properties": {}}, False),
        ({"type": "array", "items": CLOSED}, True),
        ({"anyOf": [CLOSED, {"type": "object"}]}, False),
        ({**CLOSED, "$defs": {"b": {"type": "object"}}}, False),
        ({"type": "string"}, True),
    ],
)
def test_a_schema_is_strict_where_it_has_the_form_for_that(schema, strict):
    assert is_strict(schema) is strict
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}
    assert asked(schema=schema)["response_format"] == wanted


def test_a_gateway_to_claude_gets_a_schema_that_claude_takes():
    score = {"type": "object", "properties": {"score": {"type": "number", "maximum": 1}}, "required": ["score"]}
    sent = asked(schema=score, model="anthropic/claude-sonnet-4.5")["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert sent["schema"]["properties"] == {"score": {"type": "number", "description": "(maximum 1)"}}


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        (
            "https://me.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
            "https://me.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
        ),
    ],
)
def test_the_path_is_put_below_the_address_and_its_query_is_kept(address, url):
    assert OPENAI.build_url(address, "m") == url


def test_tool_calls_are_read_and_broken_arguments_stay_text():
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "add", "arguments": '{"a": '}},
        {"id": "c3", "type": "function", "function": {"name": "now", "arguments": ""}},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    for finish in ("tool_calls", "stop"):
        data = changed(
            changed(OPENAI_ANSWER, "choices", 0, "message", to=message), "choices", 0, "finish_reason", to=finish
        )
        response = read(data)
        assert (response.finish_reason, response.text) == (FinishReason.TOOL_CALLS, "")
        assert [call.arguments for call in response.tool_calls] == [{"a": 1}, '{"a": ', {}]
        assert response.tool_calls[0] == ToolCall(id="c1", name="add", arguments={"a": 1})


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_read_by_either_name_and_who_served_it(name):
    response = read(changed(OPENAI_ANSWER, "choices", 0, "message", name, to="let me see"))
    assert (response.text, response.reasoning) == ("Paris.", "let me see")
    assert (response.system_fingerprint, response.service_tier) == ("fp_fc9f1d7035", "default")
    assert read(OPENAI_ANSWER).reasoning == ""


def test_logprobs_are_read():
    content = [
        {
            "token": "Par",
            "logprob": -0.5,
            "bytes": [80],
            "top_logprobs": [{"token": "Par", "logprob": -0.5}, {"token": "Ly", "logprob": -2}],
        }
    ]
    found = read(changed(OPENAI_ANSWER, "choices", 0, "logprobs", to={"content": content, "refusal": None})).logprobs
    assert found == (TokenLogprob(token="Par", logprob=-0.5, top=(("Par", -0.5), ("Ly", -2.0))),)
    assert read(OPENAI_ANSWER).logprobs is None


@pytest.mark.parametrize(
    "used",
    [
        None,
        "none",
        {"prompt_tokens": -1},
        {"prompt_tokens": 9},
        {"prompt_tokens": 9, "completion_tokens": "9"},
        {"prompt_tokens": 10**30, "completion_tokens": 9},
        {"prompt_tokens": "9", "completion_tokens": True, "prompt_tokens_details": 5},
    ],
)
def test_a_usage_that_is_none_or_is_not_whole_counts_the_request(used):
    assert read({**OPENAI_ANSWER, "usage": used}).usage == LOST


def test_reasoning_that_is_counted_apart_is_output_too():
    """xAI's total says so; others count it among the completion."""
    used = {"prompt_tokens": 37, "completion_tokens": 530, "completion_tokens_details": {"reasoning_tokens": 233}}
    apart = read({**OPENAI_ANSWER, "usage": {**used, "total_tokens": 800}}).usage
    among = read({**OPENAI_ANSWER, "usage": {**used, "total_tokens": 567}}).usage
    assert (apart.output_tokens, among.output_tokens, apart.reasoning_tokens) == (763, 530, 233)


@pytest.mark.parametrize(("status", "unpriced"), [(500, 0), (429, 0), (503, 0), (504, 1), (524, 1)])
def test_a_refusal_costs_nothing_but_what_a_gateway_gave_up_on_may(status, unpriced):
    assert error(status, {"error": {"message": "no"}}).usage.unpriced == unpriced


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("choices",), None),
        (("choices",), {}),
        (("choices",), [None]),
        (("choices",), [{"text": "x", "finish_reason": "stop"}]),
        (("choices", 0, "message", "content"), None),
        (("choices", 0, "message", "content"), 5),
        (("choices", 0, "finish_reason"), "tool_calls"),
    ],
)
def test_an_answer_with_nothing_in_it_is_transient(way, value):
    with pytest.raises(Transient):
        read(changed(OPENAI_ANSWER, *way, to=value))


@pytest.mark.parametrize(
    ("status", "data", "kind"),
    [
        (400, {"error": {"message": "bad", "type": "invalid_request_error"}}, Permanent),
        (400, {"error": {"message": "filtered", "code": "content_filter", "innererror": {}}}, Permanent),
        (400, {"error": {"message": "gpt-9 is not a valid model ID", "code": 400}}, Unavailable),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400},
            Permanent,
        ),
        (402, {"error": {"message": "Insufficient credits", "code": 402}}, Unavailable),
        (
            403,
            {"error": {"message": "Country not supported", "code": "unsupported_country_region_territory"}},
            Unavailable,
        ),
        (
            403,
            {"error": {"message": "flagged", "code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "x"}}},
            Permanent,
        ),
        (404, {"error": 'model "qwen" not found, try pulling it first'}, Unavailable),
        (
            404,
            {
                "error": {
                    "code": "DeploymentNotFound",
                    "message": "The API deployment for this resource does not exist.",
                }
            },
            Unavailable,
        ),
        (404, {"detail": "Not Found"}, Unavailable),
        (405, {"detail": "Method Not Allowed"}, Unavailable),
        (408, {}, Transient),
        (409, {}, Transient),
        (413, {}, Permanent),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, Permanent),
        (429, {}, Throttled),
        (
            429,
            {"error": {"message": "Request too large for gpt-5 on tokens per min (TPM): Limit 3, Requested 9."}},
            Permanent,
        ),
        (
            429,
            {"error": {"code": "billing_hard_limit_reached", "message": "Billing hard limit has been reached"}},
            Unavailable,
        ),
        (429, {"error": {"code": "credit_balance_exhausted", "message": "no balance left"}}, Unavailable),
        (500, {"error": {"code": "engine_overloaded"}}, Throttled),
        (502, {}, Transient),
        (503, {}, Throttled),
        (504, {}, Transient),
        (521, {}, Unavailable),
        (524, {}, Transient),
        (302, {}, Unavailable),
    ],
)
def test_errors_are_of_one_kind_each(status, data, kind):
    assert type(error(status, data)) is kind


def test_an_error_says_what_was_said_its_code_and_the_remedy():
    said = {
        "error": {
            "message": "The model `x`\ndoes  not exist",
            "type": "invalid_request_error",
            "code": "model_not_found",
        }
    }
    assert (
        str(error(404, said))
        == "openai returned 404: The model `x` does not exist (model_not_found); check the model's name and the address"
    )
    assert (
        str(error(404, {"detail": "Not Found"}))
        == "openai returned 404: Not Found; check the model's name and the address"
    )
    assert str(error(422, {"detail": [{"msg": "field required"}]})) == "openai returned 422: field required"
    assert str(error(502, {})) == "openai returned 502"
    assert str(error(308, {})) == "openai returned 308; the address has moved; set the new one"


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"[]", b"[1]", b"null", b"{", b"[" * 100_000, b'{"error": []}', b'{"error": {"code": {}}}']
)
def test_an_error_with_any_body_is_one_by_its_status(body):
    assert type(OPENAI.classify(500, {}, body)) is Transient


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"error": {"message": "x", "code": 429}}, 429),
        ({"error": {"message": "x", "code": "402"}}, 402),
        ({"error": {"message": "x", "code": 200}}, 500),
        ({"error": "x"}, 500),
        ({"object": "error", "message": "x", "code": 404}, 404),
        ({"choices": [{"error": {"code": 502, "message": "x"}, "finish_reason": "error"}]}, 502),
        ({"error": None, **OPENAI_ANSWER}, None),
    ],
)
def test_an_error_inside_an_answer_has_the_status_it_says(data, status):
    assert OPENAI.find_hidden_status(data) == status
