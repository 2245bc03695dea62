import json

import pytest

from graphmill.core.errors import Permanent, Throttled, Transient, Unavailable
from graphmill.core.model_call import FinishReason, Image, Message, ModelRequest, Text, TokenLogprob, Tool, ToolCall
from graphmill.graph.registry import find_provider
from graphmill.providers.gemini import Gemini
from support.model_apis import GEMINI, GEMINI_ANSWER, changed, google_error

GOOGLE = find_provider("gemini")
ASK = Message("user", "hi")


def asked(**more):
    return Gemini().build_body(ModelRequest(**{"model": "gemini-2.5-flash", "messages": (ASK,), **more}), "")


def read(data):
    return GOOGLE.read_response(data, None, None)


def test_what_is_not_set_is_not_sent():
    assert asked() == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_the_system_stands_apart_and_every_setting_goes_by_its_name():
    tools = (Tool(name="add", description="Adds.", parameters={"type": "object"}), Tool(name="now"))
    body = asked(
        messages=(Message("system", "Be brief."), ASK),
        temperature=0.0,
        top_p=0.5,
        max_tokens=9,
        stop=("a",),
        seed=0,
        logprobs=2,
        schema={"type": "string"},
        reasoning_effort="low",
        tools=tools,
    )
    assert body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {
            "temperature": 0.0,
            "topP": 0.5,
            "maxOutputTokens": 9,
            "stopSequences": ["a"],
            "seed": 0,
            "responseLogprobs": True,
            "logprobs": 2,
            "thinkingConfig": {"thinkingBudget": 1024},
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "string"},
        },
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "add", "description": "Adds.", "parametersJsonSchema": {"type": "object"}},
                    {"name": "now", "description": ""},
                ]
            }
        ],
    }


def test_from_gemini_3_on_thinking_goes_by_a_word():
    assert asked(model="gemini-3-pro", reasoning_effort="high")["generationConfig"] == {
        "thinkingConfig": {"thinkingLevel": "high"}
    }


def test_messages_carry_images_calls_and_results():
    messages = (
        Message("user", (Text("what?"), Image(data="QQ==", media_type="image/jpeg"), Image(url="gs://x/a.png"))),
        Message("assistant", "", (ToolCall(id="c1", name="add", arguments={"a": 1}),)),
        Message("tool", "2", (), "c1"),
    )
    assert asked(messages=messages)["contents"] == [
        {
            "role": "user",
            "parts": [
                {"text": "what?"},
                {"inlineData": {"mimeType": "image/jpeg", "data": "QQ=="}},
                {"fileData": {"mimeType": "image/png", "fileUri": "gs://x/a.png"}},
            ],
        },
        {"role": "model", "parts": [{"functionCall": {"name": "add", "args": {"a": 1}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": {"result": "2"}}}]},
    ]


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("a b?c", "models/a%20b%3Fc"),
    ],
)
def test_a_model_stands_in_the_path_and_can_not_leave_it(model, path):
    assert GOOGLE.build_url("https://h/v1beta", model) == f"https://h/v1beta/{path}:generateContent"


def test_thoughts_are_no_part_of_the_text():
    response = read(changed(GEMINI_ANSWER, "usageMetadata", "trafficType", to="ON_DEMAND"))
    assert (response.text, response.reasoning) == ("Paris.", "thinking it over")
    assert response.service_tier == "ON_DEMAND"


def test_function_calls_are_read():
    parts = [{"functionCall": {"name": "add", "args": {"a": 1}}}, {"functionCall": {"id": "x", "name": "now"}}]
    response = read(changed(GEMINI_ANSWER, "candidates", 0, "content", "parts", to=parts))
    assert response.finish_reason is FinishReason.TOOL_CALLS
    assert response.tool_calls == (
        ToolCall(id="call-0", name="add", arguments={"a": 1}),
        ToolCall(id="x", name="now", arguments={}),
    )


def test_logprobs_are_read():
    result = {
        "chosenCandidates": [
            {"token": "Par", "tokenId": 1, "logProbability": -0.5},
            {"token": "is", "logProbability": -1},
        ],
        "topCandidates": [{"candidates": [{"token": "Par", "logProbability": -0.5}]}],
    }
    found = read(changed(GEMINI_ANSWER, "candidates", 0, "logprobsResult", to=result)).logprobs
    assert found == (
        TokenLogprob(token="Par", logprob=-0.5, top=(("Par", -0.5),)),
        TokenLogprob(token="is", logprob=-1.0),
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("SAFETY", FinishReason.CONTENT_FILTER),
        ("RECITATION", FinishReason.CONTENT_FILTER),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("OTHER", FinishReason.OTHER),
        ("UNEXPECTED_TOOL_CALL", FinishReason.OTHER),
        (None, FinishReason.OTHER),
    ],
)
def test_a_finish_reason_is_one_of_ours_also_without_content(said, reason):
    data = changed(changed(GEMINI_ANSWER, "candidates", 0, "finishReason", to=said), "candidates", 0, "content", to={})
    assert read(data).finish_reason is reason


def test_a_blocked_prompt_says_why():
    assert (
        str(read(GEMINI.ends["content_filter"]).error())
        == "the provider's content filter stopped the answer: PROHIBITED_CONTENT"
    )
    data = changed(
        changed(GEMINI_ANSWER, "candidates", 0, "finishReason", to="SAFETY"), "candidates", 0, "finishMessage", to="no."
    )
    assert str(read(data).error()).endswith("stopped the answer: SAFETY: no.")


@pytest.mark.parametrize(("way", "value"), [(("candidates",), []), (("candidates", 0, "content"), {"role": "model"})])
def test_an_answer_with_nothing_in_it_is_transient(way, value):
    with pytest.raises(Transient):
        read(changed(GEMINI_ANSWER, *way, to=value))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (google_error(400, "INVALID_ARGUMENT", "Invalid value"), Permanent),
        (google_error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), Unavailable),
        (google_error(403, "PERMISSION_DENIED", "no access"), Unavailable),
        (google_error(403, "PERMISSION_DENIED", "off", [{"reason": "SERVICE_DISABLED"}]), Unavailable),
        (google_error(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."), Throttled),
        (google_error(504, "DEADLINE_EXCEEDED", "late"), Transient),
    ],
)
def test_errors_are_of_one_kind_each(answer, kind):
    status, data = answer
    assert type(GOOGLE.classify(status, {}, json.dumps(data).encode())) is kind
    assert type(GOOGLE.classify(status, {}, json.dumps([data]).encode())) is kind


def test_the_wait_in_an_error_s_details_goes_before_the_header_s():
    status, data = GEMINI.errors["throttled"]
    assert GOOGLE.classify(status, {"retry-after": "5"}, json.dumps(data).encode()).retry_after_s == 38.0
    assert GOOGLE.classify(429, {"retry-after": "5"}, b"").retry_after_s == 5.0
