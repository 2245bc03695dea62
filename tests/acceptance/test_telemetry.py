"""Telemetry by OpenTelemetry: what whoever watches a run is told, and that nobody pays for it who does not."""

import asyncio
import json
import subprocess
from textwrap import dedent

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanKind, StatusCode

import graphmill as gm
from graphmill.core.model_call import ModelResponse
from graphmill.core.usage import Usage
from graphmill.graph.models import genai
from support.asked_model import failing
from support.command import COMMAND, environment, rows, write_items
from support.model_server import ModelServer, reply
from support.watching import Watcher

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
QUICK = gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))
CHAT = "chat play"
STEP = "graphmill.step ask"


@pytest.fixture
def watcher(monkeypatch):
    monkeypatch.delenv(CAPTURE, raising=False)
    return Watcher(monkeypatch)


def test_names_are_those_of_the_conventions(watcher):
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    named = {value for value in vars(genai).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    named |= {*genai.PARAMS.values(), *genai.USAGE.values()}
    assert len(named) > 15
    assert named <= known


def test_a_call_is_a_span_with_what_was_asked_and_what_came_back(watcher, played):
    used = Usage(
        requests=1, input_tokens=20, output_tokens=8, cached_tokens=5, cache_written_tokens=4, reasoning_tokens=3,
        reported=1, cost_nano=1_500_000,
    )  # fmt: skip
    played.answers = [ModelResponse(text="fine", usage=used, model="played-1", id="c-1")]
    params = {"prompt": "tea?", "temperature": 0.5, "top_p": 0.9, "max_tokens": 30, "seed": 7, "stop": ["END"]}
    played.output(params)
    span = watcher.one(CHAT)
    assert (span.kind, span.status.status_code) == (SpanKind.CLIENT, StatusCode.UNSET)
    assert dict(span.attributes) == {
        "graphmill.cost_usd": 0.0015,
        "graphmill.node": "ask",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "play",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.max_tokens": 30,
        "gen_ai.request.seed": 7,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.response.model": "played-1",
        "gen_ai.response.id": "c-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 8,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.cache_creation.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 3,
    }
    assert watcher.line(span) == ["graphmill.run", "graphmill.item", STEP, CHAT]


@pytest.mark.parametrize(
    ("protocol", "name"),
    [("openai", "openai"), ("anthropic", "anthropic"), ("gemini", "gcp.gemini")],
    ids=lambda word: word,
)
def test_a_provider_goes_by_the_name_that_the_conventions_have_and_a_server_by_its_address(
    watcher, tmp_path, monkeypatch, protocol, name
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with ModelServer(answer=lambda _: reply({"error": {"message": "no such thing"}}, 400)) as server:
        (tmp_path / "graphmill.yaml").write_text(
            f"providers: {{own: {{protocol: {protocol}, address: '{server.url}/v1'}}}}"
        )
        with pytest.raises(gm.Permanent):
            gm.complete("own/m", "hi")
        told = watcher.one("chat m").attributes
        assert (told["gen_ai.provider.name"], told["server.address"], told["server.port"]) == (
            name,
            "127.0.0.1",
            server.port,
        )


def test_every_attempt_is_a_span_and_a_failed_one_says_of_which_kind(watcher, played):
    played.answers = [
        failing(gm.Transient("gone"), input_tokens=3, output_tokens=1),
        gm.Throttled("slow", retry_after_s=0),
        "fine",
    ]
    played.output({"prompt": "x"})
    assert [span.attributes.get("error.type") for span in watcher.named(CHAT)] == ["transient", "throttled", None]
    assert [span.status.status_code.name for span in watcher.named(STEP)] == ["ERROR", "ERROR", "UNSET"]
    assert [span.attributes["graphmill.attempt"] for span in watcher.named(STEP)] == [1, 2, 3]
    assert watcher.named(CHAT)[0].attributes["gen_ai.usage.input_tokens"] == 3
    assert dict(watcher.one("graphmill.item").attributes) == {
        "graphmill.item.id": "job",
        "graphmill.status": "succeeded",
        "graphmill.attempts": 3,
    }


def test_an_answer_that_is_asked_for_again_is_two_calls_of_one_attempt(watcher, played):
    played.answers = ["no json", '{"a": 1}']
    schema = {"type": "object", "required": ["a"]}
    played.output({"prompt": "x", "output_schema": schema})
    assert len(watcher.named(CHAT)) == 2
    assert {watcher.parent(span).context.span_id for span in watcher.named(CHAT)} == {watcher.one(STEP).context.span_id}


def test_a_failed_item_and_one_that_ran_out_of_time_say_so(watcher, played):
    played.by = lambda request: gm.Permanent("no")
    played.failure({"prompt": "x"})
    assert watcher.one("graphmill.item").attributes["error.type"] == "permanent"

    async def never(_):
        await gm.step(sleeping)

    (result,) = gm.batch(never, [1], policy=gm.Policy(timeout_s=0.05, retry=gm.Retry(attempts=1))).results()
    assert result.status == "timed_out"
    assert watcher.one("graphmill.attempt").attributes["error.type"] == "timeout"
    assert watcher.one("graphmill.step sleeping").attributes["error.type"] == "cancelled"


async def sleeping():
    await asyncio.Event().wait()


def test_what_a_call_takes_and_uses_is_measured(watcher, played):
    played.answers = [failing(gm.Transient("gone"), input_tokens=3, output_tokens=1), "fine"]
    played.output({"prompt": "x"})
    took = watcher.points("gen_ai.client.operation.duration")
    assert sorted((point.attributes.get("error.type", ""), point.count) for point in took) == [
        ("", 1),
        ("transient", 1),
    ]
    assert took[0].explicit_bounds[:3] == (0.01, 0.02, 0.04)
    used = watcher.points("gen_ai.client.token.usage")
    assert sorted((point.attributes["gen_ai.token.type"], point.sum) for point in used) == [
        ("input", 2),
        ("input", 3),
        ("output", 1),
        ("output", 1),
    ]
    assert {point.attributes["gen_ai.request.model"] for point in used} == {"play"}
    assert used[0].explicit_bounds[-1] == 67108864


def test_what_calls_cost_is_counted_failed_ones_too_and_what_is_not_known_is_not_zero(watcher, played):
    unpriced = ModelResponse(text="fine", usage=Usage(requests=1, unpriced=1))
    priced = ModelResponse(text="fine", usage=Usage(requests=1, cost_nano=1_500_000))
    played.answers = [unpriced, failing(gm.Transient("gone"), cost_nano=250_000), priced]
    played.output({"prompt": "x"})
    assert watcher.points("graphmill.client.cost") == []
    played.output({"prompt": "y"})
    [cost] = watcher.points("graphmill.client.cost")
    assert cost.value == pytest.approx(0.00175)
    assert (cost.attributes["gen_ai.request.model"], cost.attributes["gen_ai.operation.name"]) == ("play", "chat")
    assert (cost.attributes["graphmill.node"], "graphmill.role" in cost.attributes) == ("ask", False)


async def in_a_step(item):
    del item
    return (await gm.complete("scripted/play", "hi")).text


def in_a_thread(item):
    del item
    with trace.get_tracer("mine").start_as_current_span("mine"):
        pass
    return gm.complete("scripted/play", "hi").text


@pytest.mark.parametrize("function", [in_a_step, in_a_thread])
def test_a_function_s_call_is_a_span_below_that_of_its_step(watcher, played, function):
    assert gm.batch(function, [1], policy=QUICK).statistics.succeeded == 1
    around = ["graphmill.run", "graphmill.item", "graphmill.attempt"]
    assert watcher.line(watcher.one(CHAT)) == [*around, "graphmill.step complete", CHAT]
    if function is in_a_thread:
        assert watcher.line(watcher.one("mine")) == [*around, "mine"]


def test_a_run_is_a_part_of_what_it_was_started_in_and_so_is_a_call_without_one(watcher, played):
    with watcher.tracer.start_as_current_span("caller"):
        gm.batch(in_a_step, [1], policy=QUICK)
        gm.complete("scripted/play", "alone")
    assert sorted(watcher.line(span)[:2] for span in watcher.named(CHAT)) == [
        ["caller", CHAT],
        ["caller", "graphmill.run"],
    ]


def test_items_side_by_side_are_not_mixed_up(watcher, played):
    gm.batch(in_a_step, [{"id": str(number)} for number in range(50)], policy=QUICK)
    assert len(watcher.named(CHAT)) == 50
    for span in watcher.named(CHAT):
        step = watcher.parent(span)
        items = [
            around.attributes["graphmill.item.id"]
            for around in (step, watcher.parent(step), watcher.parent(watcher.parent(step)))
        ]
        assert len(set(items)) == 1
    assert len({span.context.trace_id for span in watcher.spans}) == 1


def test_a_resumed_run_is_linked_to_what_it_goes_on_with(watcher, played, store):
    is_down = [True]

    async def work(item):
        found = (await gm.complete("scripted/play", "first")).text
        if is_down:
            raise gm.Unavailable("elsewhere")
        return found

    assert gm.batch(work, [1], run_id="r", journal=store, policy=gm.Policy(park_after_s=0.01)).stopped == "outage"
    is_down.clear()
    assert gm.batch(work, [1], run_id="r", journal=store).statistics.succeeded == 1
    gm.batch(work, [1], run_id="r", journal=store)
    first, second, third = watcher.named("graphmill.run")
    assert (first.links, first.attributes["graphmill.run.id"], first.attributes["graphmill.stopped"]) == (
        (),
        "r",
        "outage",
    )
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert [link.context.trace_id for link in third.links] == [second.context.trace_id]
    assert len(watcher.named(CHAT)) == 1


def test_what_was_said_is_not_told_unless_somebody_asks_for_it(watcher, played, monkeypatch):
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-0123456789")
    played.settings("", provider=", key: {env: PLANTED_KEY}")
    played.answers = [gm.Permanent("the prompt was SECRET-PROMPT"), "SECRET-ANSWER"]
    asked = {"prompt": "SECRET-PROMPT sk-planted-0123456789", "system": "SECRET-SYSTEM"}
    played.run(asked)
    played.output(asked)
    assert "SECRET" not in watcher.told()
    monkeypatch.setenv(CAPTURE, "True")
    played.output(asked)
    told = watcher.named(CHAT)[-1].attributes
    assert json.loads(told["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": "SECRET-SYSTEM"}]},
        {"role": "user", "parts": [{"type": "text", "content": "SECRET-PROMPT {env: PLANTED_KEY}"}]},
    ]
    assert json.loads(told["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "SECRET-ANSWER"}], "finish_reason": "stop"}
    ]


@pytest.mark.parametrize("word", ["", "false", "no_content", "event_only", "nonsense"])
def test_other_words_ask_for_nothing(watcher, played, monkeypatch, word):
    monkeypatch.setenv(CAPTURE, word)
    played.output({"prompt": "SECRET"})
    assert "SECRET" not in watcher.told()


def test_images_and_tools_are_told_in_the_conventions_form(watcher, played, monkeypatch):
    monkeypatch.setenv(CAPTURE, "span_only")
    called = {"id": "t1", "name": "look", "arguments": {"at": "tea"}}
    messages = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "data": "aGk="},
                {"type": "image", "url": "http://x/i"},
            ],
        },
        {"role": "assistant", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "t1", "content": "green"},
    ]
    played.output({"messages": messages})
    assert json.loads(watcher.one(CHAT).attributes["gen_ai.input.messages"]) == [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "see"},
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": ""},
                {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "http://x/i"},
            ],
        },
        {"role": "assistant", "parts": [{"type": "tool_call", **called}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "t1", "response": "green"}]},
    ]


def test_what_is_not_sampled_is_run_as_ever(monkeypatch, played):
    watcher = Watcher(monkeypatch, sampler=ALWAYS_OFF)
    monkeypatch.setenv(CAPTURE, "true")
    assert played.output({"prompt": "x"})["response"] == "fine"
    assert watcher.spans == []
    assert watcher.points("gen_ai.client.operation.duration")[0].count == 1


def python(folder, code, *arguments, **env):
    argv = [COMMAND[0], "-c", dedent(code), *arguments]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=120, cwd=folder, env=environment(**env), check=False
    )


@pytest.fixture
def project(tmp_path):
    (tmp_path / "graphmill.yaml").write_text("models: {play: scripted/echo}")
    write_items(tmp_path, [{"id": "a", "text": "tea"}, {"id": "b", "text": "milk"}])
    return tmp_path


ASKING = ("batch", "--prompt", "${text}", "-m", "play", "-s", "items.jsonl", "-o", "out.jsonl", "--run-id", "r")


def test_nothing_of_it_is_imported_where_nobody_watches(project):
    done = python(
        project,
        """
        import os, sys
        from graphmill.cli import main
        leave = os._exit
        def look(code):
            print([name for name in sys.modules if name.startswith("opentelemetry")], file=sys.stderr, flush=True)
            leave(code)
        os._exit = look
        main.main()
        """,
        *ASKING,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "[]"), done.stderr


def test_a_command_that_is_watched_sends_its_last_spans_before_it_leaves(project):
    code = """
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    file = open("spans.jsonl", "a", buffering=1)
    provider = TracerProvider()
    exporter = ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(indent=None) + "\\n")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=600_000))
    trace.set_tracer_provider(provider)
    from graphmill.cli.main import main
    main()
    """
    done = python(project, code, *ASKING)
    assert done.returncode == 0, done.stderr
    spans = rows(project / "spans.jsonl")
    assert sorted(span["name"] for span in spans) == sorted(
        ["graphmill.run", *2 * ["graphmill.item", "graphmill.step answer", "chat echo"]]
    )
    again = python(project, code, "resume", "r")
    assert again.returncode == 0, again.stderr
    first, second = (span for span in rows(project / "spans.jsonl") if span["name"] == "graphmill.run")
    assert [link["context"]["span_id"] for link in second["links"]] == [first["context"]["span_id"]]
