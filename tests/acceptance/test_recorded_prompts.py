"""What a run records of its model calls, with a real HTTP server in the place of each provider."""

import base64
import hashlib
import json
import sqlite3

import pytest

import graphmill as gm
from support.command import run
from support.model_apis import ANTHROPIC_ANSWER, APIS, GEMINI_ANSWER, OPENAI_ANSWER, changed
from support.model_server import ModelServer, reply, said

KEY, TEAM = "sk-planted-0123456789abcdef", "team-planted-987654"
PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
TEXT = '{"city": "Paris"}'
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
WORKFLOW = {
    "inputs": {"text": {}},
    "nodes": [
        {
            "id": "ask",
            "type": "llm",
            "params": {
                "role": "guide",
                "system": "Be brief.",
                "prompt": "${text}",
                "images": ["map.png"],
                "temperature": 0.5,
                "tools": [TOOL],
                "output_schema": SCHEMA,
            },
        }
    ],
    "outputs": {"city": "${ask.response.city}"},
}
MESSAGE = ("choices", 0, "message")
ANSWERS = {
    "openai": changed(OPENAI_ANSWER, *MESSAGE, to={"role": "assistant", "content": TEXT, "reasoning_content": "hm"}),
    "anthropic": changed(
        ANTHROPIC_ANSWER,
        "content",
        to=[{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": TEXT}],
    ),
    "gemini": changed(
        GEMINI_ANSWER, "candidates", 0, "content", "parts", to=[{"text": "hm", "thought": True}, {"text": TEXT}]
    ),
}


class Place:
    """A folder with a workflow, whose model is a server that the test plays."""

    def __init__(self, folder, server):
        self.folder = folder
        self.server = server
        (folder / "w.yaml").write_text(json.dumps(WORKFLOW))
        (folder / "map.png").write_bytes(PNG)

    def settings(self, protocol="openai", more=""):
        own = (
            f"{{protocol: {protocol}, address: '{self.server.url}/v1', key: {{env: OWN_KEY}}, "
            "headers: {x-team: {env: OWN_TEAM}}}"
        )
        (self.folder / "graphmill.yaml").write_text(
            f"providers: {{own: {own}}}\nroles: {{guide: {{model: own/m, max_tokens: 90}}}}\n{more}\n"
        )

    def run(self, text="Which city?", **options):
        options.setdefault("policy", gm.Policy(retry=gm.Retry(attempts=2, wait_s=0, cap_s=0)))
        return gm.batch("w.yaml", [{"id": "one", "text": text}], run_id="r", **options)

    def calls(self):
        (trace,) = gm.open_run("r").traces()
        return trace.steps

    def stored(self, statement):
        with sqlite3.connect(self.folder / ".graphmill/runs.db", isolation_level=None) as connection:
            return connection.execute(statement).fetchall()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("OWN_KEY", KEY)
    monkeypatch.setenv("OWN_TEAM", TEAM)
    with ModelServer() as server:
        found = Place(tmp_path, server)
        found.settings()
        yield found


@pytest.mark.parametrize("protocol", APIS)
def test_a_call_is_recorded_as_it_was_sent_and_as_it_was_answered(place, protocol):
    place.settings(protocol)
    place.server.answer = lambda _: reply(ANSWERS[protocol])
    assert place.run().collect() == [{"city": "Paris"}]
    (call,) = place.calls()
    system, user = call.request["messages"]
    assert system["content"].startswith("Be brief.")
    image, text = user["content"]
    assert image == {
        "type": "image",
        "media_type": "image/png",
        "bytes": len(PNG),
        "sha256": hashlib.sha256(PNG).hexdigest(),
    }
    assert text == {"type": "text", "text": "Which city?"}
    assert call.request["params"] == {"temperature": 0.5, "max_tokens": 90}
    assert call.request["tools"] == [TOOL]
    is_in_words = '"city"' in system["content"]
    assert is_in_words or call.request["schema"] == SCHEMA
    assert (call.role, call.model, call.node, call.attempt, call.error) == ("guide", "own/m", "ask", 1, None)
    response = call.response
    assert (response["text"], response["reasoning"], response["finish_reason"]) == (TEXT, "hm", "stop")
    answer = ANSWERS[protocol]
    assert response["id"] == answer.get("id", answer.get("responseId"))
    assert response["model"] == answer.get("model", answer.get("modelVersion"))
    assert call.usage.input_tokens == APIS[protocol].usage["input_tokens"]
    if protocol == "openai":
        assert (response["system_fingerprint"], response["service_tier"]) == ("fp_fc9f1d7035", "default")


def test_no_image_and_no_secret_is_in_the_journal(place):
    place.server.answer = lambda _: said(f'{{"city": "{KEY}"}}')
    place.run(f"My key is {KEY}, my team {TEAM}.")
    (call,) = place.calls()
    recorded = json.dumps([call.request, call.response])
    assert KEY not in recorded
    assert TEAM not in recorded
    assert "My key is " in call.request["messages"][-1]["content"][-1]["text"]
    assert base64.b64encode(PNG).decode() not in recorded


def test_an_answer_that_was_asked_for_again_is_recorded_with_the_reason(place):
    place.server.answer = lambda _: said("Paris" if len(place.server.asked) == 1 else TEXT)
    assert place.run().collect() == [{"city": "Paris"}]
    first, second = place.calls()
    assert (first.response["text"], second.response["text"]) == ("Paris", TEXT)
    assert "JSON" in first.problem
    assert first.problem in second.request["messages"][-1]["content"]
    assert (first.output, second.output["response"]) == (None, {"city": "Paris"})


def test_the_conversation_of_an_item_that_failed_can_be_read(place):
    place.server.answer = lambda _: said("Par", reason="length")
    assert place.run().statistics.failed == 1
    calls = place.calls()
    assert [(call.attempt, call.response["text"], call.response["finish_reason"]) for call in calls][-1][1:] == (
        "Par",
        "length",
    )
    assert calls[-1].error["kind"] == "permanent"


@pytest.mark.parametrize("how", ["settings", "python", "command"])
def test_a_run_that_records_no_prompts_records_none_also_when_it_is_retried(place, how):
    place.settings(more="record_prompts: false" if how == "settings" else "")
    place.server.answer = lambda _: reply({"error": {"message": "down"}}, 400)
    if how == "command":
        (place.folder / "i.jsonl").write_text('{"id": "one", "text": "Which city?"}\n')
        arguments = ("w.yaml", "--source", "i.jsonl", "--run-id", "r", "--no-record-prompts")
        assert run(place.folder, "batch", *arguments)[0] == 3
    else:
        place.run(record_prompts=False if how == "python" else None)
    place.server.answer = lambda _: said(TEXT)
    gm.retry("r")
    (step,) = place.calls()
    assert (step.request, step.response, step.output["response"]) == (None, None, {"city": "Paris"})
    assert step.usage.input_tokens == 5
    assert place.stored("SELECT * FROM calls") == []


def test_no_resume_or_retry_reads_what_was_said(place):
    place.server.answer = lambda asked: said(TEXT) if b"good" in asked.body else said("no", reason="length")
    items = [{"id": name, "text": name} for name in ("good", "bad")]
    gm.batch("w.yaml", items, run_id="r")
    place.stored("UPDATE calls SET body = x'00'")
    place.server.answer = lambda _: said(TEXT)
    assert gm.retry("r", resample=True).summary() == "2/2 items succeeded"
    with pytest.raises(gm.DamagedError, match="calls"):
        list(gm.open_run("r").traces())


def test_a_row_names_its_usage_once(place):
    place.server.answer = lambda _: said(TEXT)
    (result,) = place.run().results()
    ((more, spent),) = place.stored("SELECT more, spent FROM results")
    assert "usage" not in json.loads(more)
    assert json.loads(spent) == {
        "own/m\tguide\task": {"requests": 1, "input_tokens": 5, "output_tokens": 2, "unpriced": 1}
    }
    assert (result.usage["input_tokens"], result.usage["unpriced"], result.cost_usd) == (5, 1, None)
