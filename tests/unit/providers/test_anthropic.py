import json

import pytest

from graphmill.core.errors import Permanent, Throttled, Transient, Unavailable
from graphmill.core.model_call import FinishReason, Image, Message, ModelRequest, Text, Tool, ToolCall
from graphmill.core.usage import LOST
from graphmill.graph.registry import find_provider
from graphmill.providers.anthropic import Anthropic
from support.model_apis import ANTHROPIC_ANSWER, anthropic_error

ANTHROPIC = find_provider("anthropic")
ASK = Message("user", "hi")
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}}}},
    },
}
CLOSED = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {
            "type": "array",
            "items": {"type": "object", "properties": {"type": {"type": "string"}}, "additionalProperties": False},
        },
    },
    "additionalProperties": False,
}


def asked(**more):
    return Anthropic().build_body(ModelRequest(**{"model": "claude-sonnet-4-5", "messages": (ASK,), **more}), "")


def read(data, *, has_schema=False):
    return ANTHROPIC.read_response(data, ModelRequest(model="m", messages=(), schema={} if has_schema else None), None)


def test_the_most_tokens_are_always_sent():
    assert asked() == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert asked(max_tokens=9)["max_tokens"] == 9


def test_the_system_stands_apart_and_every_setting_goes_by_its_name():
    tool = Tool(name="add", description="Adds.", parameters={"type": "object"})
    messages = (Message("system", "Be brief."), Message("system", "Be kind."), ASK)
    body = asked(
        messages=messages, temperature=0.0, top_p=0.5, stop=("a",), seed=1, reasoning_effort="low", tools=(tool,)
    )
    assert body == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 4096,
        "system": "Be brief.\n\nBe kind.",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.0,
        "top_p": 0.5,
        "stop_sequences": ["a"],
        "output_config": {"effort": "low"},
        "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
    }


def test_logprobs_are_refused_because_nobody_would_give_them():
    with pytest.raises(Permanent, match="has no logprobs"):
        asked(logprobs=0)


def test_messages_carry_images_calls_and_results_side_by_side():
    calls = (ToolCall(id="c1", name="add", arguments={"a": 1}), ToolCall(id="c2", name="add", arguments={"a": 2}))
    messages = (
        Message("user", (Text("what?"), Image(data="QQ==", media_type="image/jpeg"), Image(url="https://x.org/a.png"))),
        Message("assistant", "Let me see.", calls),
        Message("tool", "2", (), "c1"),
        Message("tool", "3", (), "c2"),
        Message("user", "and?"),
    )
    assert asked(messages=messages)["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "QQ=="}},
                {"type": "image", "source": {"type": "url", "url": "https://x.org/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "add", "input": {"a": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "2"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "3"},
            ],
        },
        {"role": "user", "content": "and?"},
    ]


def test_a_schema_is_a_format_with_every_object_closed():
    body = asked(schema=SCHEMA, reasoning_effort="low")
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}}


def test_limits_that_the_format_does_not_take_are_said_in_words():
    score = {"type": "number", "minimum": 0, "maximum": 1, "description": "How good."}
    tags = {"type": "array", "items": {"type": "string", "minLength": 2}, "maxItems": 3}
    schema = {"type": "object", "properties": {"maximum": score, "tags": tags}}
    assert asked(schema=schema)["output_config"]["format"]["schema"] == {
        "type": "object",
        "properties": {
            "maximum": {"type": "number", "description": "How good. (minimum 0, maximum 1)"},
            "tags": {
                "type": "array",
                "items": {"type": "string", "description": "(minLength 2)"},
                "description": "(maxItems 3)",
            },
        },
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "model",
    [
        "claude-3-5-haiku-20241022",
        "claude-sonnet-4-20250514",
        "claude-opus-4-1-20250805",
        "claude-opus-4-0",
        "claude-opus-4",
    ],
)
def test_a_schema_is_a_tool_that_must_be_used_where_the_model_is_too_old(model):
    body = asked(model=model, schema=SCHEMA)
    assert body["tools"] == [{"name": "answer", "description": "Give the answer.", "input_schema": SCHEMA}]
    assert body["tool_choice"] == {"type": "tool", "name": "answer"}
    assert "output_config" not in body


@pytest.mark.parametrize(
    "model",
    ["claude-sonnet-4-5-20250929", "claude-haiku-4-5", "claude-opus-4-6", "claude-opus-5", "claude-sonnet-5-20270101"],
)
def test_newer_models_know_the_format(model):
    assert "output_config" in asked(model=model, schema=SCHEMA)


def test_an_answer_by_the_tool_is_its_text():
    block = {"type": "tool_use", "id": "t", "name": "answer", "input": {"a": 1}}
    data = {**ANTHROPIC_ANSWER, "content": [{"type": "text", "text": "Here:"}, block], "stop_reason": "tool_use"}
    response = read(data, has_schema=True)
    assert (response.text, response.finish_reason, response.tool_calls) == ('{"a":1}', FinishReason.STOP, ())
    plain = read(data)
    assert plain.tool_calls == (ToolCall(id="t", name="answer", arguments={"a": 1}),)
    assert (plain.text, plain.finish_reason) == ("Here:", FinishReason.TOOL_CALLS)


def test_thinking_is_no_part_of_the_text():
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Par"},
        {"type": "text", "text": "is."},
    ]
    response = read({**ANTHROPIC_ANSWER, "content": blocks, "usage": {"service_tier": "batch"}})
    assert (response.text, response.reasoning, response.service_tier) == ("Paris.", "hm", "batch")
    assert response.usage == LOST


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.REFUSAL),
        ("pause_turn", FinishReason.OTHER),
        (None, FinishReason.OTHER),
        ("a_new_one", FinishReason.OTHER),
    ],
)
def test_a_stop_reason_is_one_of_ours(said, reason):
    assert read({**ANTHROPIC_ANSWER, "stop_reason": said}).finish_reason is reason


def test_a_refusal_says_why():
    data = {
        **ANTHROPIC_ANSWER,
        "content": [],
        "stop_reason": "refusal",
        "stop_details": {"explanation": "It is not safe."},
    }
    assert str(read(data).error()) == "the model refused: It is not safe."
    assert str(read({**data, "stop_reason": "pause_turn"}).error()).endswith(
        "before the answer was complete: stop_reason is 'pause_turn'"
    )


@pytest.mark.parametrize("changes", [{"content": []}, {"content": None}, {"stop_reason": "tool_use"}])
def test_an_answer_with_nothing_in_it_is_transient(changes):
    with pytest.raises(Transient):
        read({**ANTHROPIC_ANSWER, **changes})


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        ("https://proxy/anthropic?team=a", "https://proxy/anthropic/v1/messages?team=a"),
    ],
)
def test_the_version_stands_in_the_path_once(address, url):
    assert ANTHROPIC.build_url(address, "m") == url


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (anthropic_error(400, "invalid_request_error", "messages: roles must alternate"), Permanent),
        (
            anthropic_error(400, "invalid_request_error", "You have reached your specified API usage limits."),
            Unavailable,
        ),
        (anthropic_error(402, "billing_error", "There's an issue with your billing."), Unavailable),
        (anthropic_error(403, "permission_error", "Your key may not use this."), Unavailable),
        (anthropic_error(413, "request_too_large", "Request exceeds the maximum size"), Permanent),
        (
            anthropic_error(429, "rate_limit_error", "spent", details={"error_code": "enforced_spend_limit_reached"}),
            Unavailable,
        ),
        (anthropic_error(504, "timeout_error", "Request timed out"), Transient),
        (anthropic_error(500, "overloaded_error", "Overloaded"), Throttled),
        (anthropic_error(418, "a_new_error", "?"), Permanent),
        ((529, {}), Throttled),
    ],
)
def test_errors_are_of_one_kind_each(answer, kind):
    status, data = answer
    assert type(ANTHROPIC.classify(status, {}, json.dumps(data).encode())) is kind


def test_an_error_inside_an_answer_has_the_status_of_its_type():
    assert ANTHROPIC.find_hidden_status(anthropic_error(200, "overloaded_error", "x")[1]) == 529
    assert ANTHROPIC.find_hidden_status({"type": "error"}) == 500
    assert ANTHROPIC.find_hidden_status(ANTHROPIC_ANSWER) is None
