"""Models asked from plain Python: the same step as a node's, in async functions, in threads, and outside of a batch."""

import asyncio
import json
from decimal import Decimal

import pydantic
import pytest

import graphmill as gm
from support.asked_model import answer, failing

SCHEMA = {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]}
PROMPT = gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))


class Summary:
    """What a pydantic model can do, as far as it is asked for here."""

    def __init__(self, topic):
        self.topic = topic

    @classmethod
    def model_json_schema(cls):
        return SCHEMA

    @classmethod
    def model_validate_json(cls, text):
        found = json.loads(text)
        if len(found["topic"]) > 5:
            raise ValueError("topic: at most 5 characters")
        return cls(found["topic"])


async def ask(item):
    found = await gm.complete("scripted/play", f"Item {item['n']}.", temperature=0)
    return {"text": found.text, "model": found.model, "tokens": found.usage.input_tokens}


def ask_in_a_thread(item):
    return {"text": gm.complete("scripted/play", f"Item {item['n']}.").text}


def one(function, **options):
    options.setdefault("policy", PROMPT)
    (result,) = gm.batch(function, [{"id": "one", "n": 1}], **options).results()
    return result


@pytest.mark.parametrize("function", [ask, ask_in_a_thread])
def test_a_function_is_given_the_answer_and_its_job_the_usage(played, function):
    result = one(function)
    assert (result.output["text"], played.texts()) == ("fine", ["Item 1."])
    assert (result.usage["requests"], result.usage["input_tokens"], result.cost_usd) == (1, 2, 0.5)


def test_messages_and_params_are_passed_on(played):
    async def work(_):
        messages = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]
        await gm.complete("scripted/play", messages, system="s", max_tokens=3, stop=["x", "y"], extra={"k": 1})

    assert one(work).is_success
    asked = played.asked[0]
    assert [each.text for each in asked.messages] == ["s", "a", "b", "c"]
    assert (asked.max_tokens, asked.stop, asked.extra, asked.origin.item) == (3, ("x", "y"), {"k": 1}, "one")


def test_a_role_has_the_model_and_the_params_that_are_set_for_it(played):
    async def work(_):
        await gm.complete(prompt="a", role="judge")
        await gm.complete(prompt="b", role="judge", temperature=1)
        await gm.complete(prompt="c")

    played.settings(
        "models: {fast: {model: scripted/x, seed: 7}, default: scripted/y}\nroles: {judge: {model: fast, temperature: 0.5}}"
    )
    assert one(work).is_success
    assert [(each.model, each.temperature, each.seed) for each in played.asked] == [
        ("x", 0.5, 7),
        ("x", 1, 7),
        ("y", None, None),
    ]


def test_a_json_schema_gives_the_data_and_a_model_an_instance(played):
    async def work(_):
        data = await gm.complete("scripted/play", "x", schema=SCHEMA)
        made = await gm.complete("scripted/play", "x", schema=Summary)
        return [data, type(made).__name__, made.topic]

    played.answers = ['{"topic": "tea"}']
    assert one(work).output == [{"topic": "tea"}, "Summary", "tea"]
    assert [request.schema for request in played.asked] == [SCHEMA, SCHEMA]


class Review(pydantic.BaseModel):
    """A pydantic model."""

    stars: int = pydantic.Field(ge=1, le=5)
    tags: list[str] = []


def test_a_pydantic_model_is_asked_for_checked_and_given(played, store):
    async def work(_):
        found = await gm.complete("scripted/play", "x", schema=Review)
        return [type(found).__name__, found.stars, found.tags]

    played.answers = ['{"stars": 9}', '```json\n{"stars": 4, "tags": ["good"]}\n```']
    result = one(work, run_id="r", journal=store)
    assert result.output == ["Review", 4, ["good"]]
    assert played.asked[0].schema == Review.model_json_schema()
    assert "less than or equal to 5" in played.texts()[1]


def test_what_a_model_refuses_is_asked_for_again_with_its_words(played):
    async def work(_):
        return (await gm.complete("scripted/play", "x", schema=Summary)).topic

    played.answers = ['{"topic": "tea time"}', '{"topic": "tea"}']
    result = one(work)
    assert (result.output, result.usage["requests"]) == ("tea", 2)
    assert "the answer does not fit Summary: topic: at most 5 characters" in played.texts()[1]


def test_a_refused_answer_fails_the_step_and_the_job_once(played):
    played.answers = [answer("", reason="refusal")]
    result = one(ask)
    assert (result.status, result.error.kind, len(played.asked), result.usage["requests"]) == (
        "failed",
        "permanent",
        1,
        1,
    )
    assert result.error.message == "step complete#1: scripted/play: the model refused"


def test_failed_attempts_are_tried_again_at_the_step_and_counted(played):
    played.answers = [failing(gm.Transient("cut"), input_tokens=5, cost_nano=1_000_000_000), "fine"]
    result = one(ask)
    assert (result.attempts, len(played.asked), result.usage["input_tokens"], result.cost_usd) == (1, 2, 7, 1.5)


def test_what_was_answered_is_not_asked_again_by_the_job_s_next_attempt_and_counts_once(played):
    tries = []

    async def work(item):
        found = await ask(item)
        tries.append(found)
        if len(tries) < 3:
            raise gm.Transient("later")
        return found

    result = one(work)
    assert (result.attempts, len(played.asked), result.usage["requests"]) == (3, 1, 1)
    assert tries[0] == tries[2]


def test_what_was_answered_is_not_asked_again_after_a_resume_and_still_counts(played, store):
    is_down = [True]

    async def work(item):
        first = await gm.complete("scripted/play", "first", schema=Summary)
        if is_down:
            raise gm.Unavailable("elsewhere")
        second = await gm.complete("scripted/play", "second")
        return [first.topic, second.text, item["n"]]

    played.answers = ["no json", '{"topic": "tea"}', "done"]
    policy = gm.Policy(park_after_s=0.01)
    assert gm.batch(work, [{"id": "one", "n": 1}], run_id="r", journal=store, policy=policy).stopped == "outage"
    assert len(played.asked) == 2
    is_down.clear()
    report = gm.batch(work, [{"id": "one", "n": 1}], run_id="r", journal=store)
    (result,) = report.results()
    assert result.output == ["tea", "done", 1]
    assert played.texts()[2:] == ["second"]
    assert (result.usage["requests"], result.cost_usd) == (3, 1.5)


async def complete_and_ask(item):
    draft = await gm.complete("scripted/play", "draft")
    return [draft.text, await gm.ask(f"Publish {item['id']}?")]


async def ask_in_a_step(item):
    return await gm.step(complete_and_ask, item)


def ask_in_a_thread_s_step(item):
    def both():
        return [gm.complete("scripted/play", "draft").text, gm.ask("Publish?")]

    return gm.step(both)


async def fail_and_ask(item):
    try:
        await gm.complete("scripted/play", "draft", max_tokens=1)
    except gm.StepError:
        return ["fine", await gm.ask(f"Publish {item['id']}?")]


@pytest.mark.parametrize("function", [complete_and_ask, ask_in_a_step, ask_in_a_thread_s_step, fail_and_ask])
def test_what_was_used_before_a_question_counts_once_when_it_is_answered(played, store, function):
    if function is fail_and_ask:
        played.answers = [answer("fi", reason="length")]
    waiting = one(function, run_id="r", journal=store)
    assert (waiting.status, waiting.usage["requests"], waiting.cost_usd) == ("waiting", 1, 0.5)
    done = one(function, run_id="r", journal=store, answers={"one": "yes"})
    assert (done.output, len(played.asked), done.usage["requests"], done.cost_usd) == (["fine", "yes"], 1, 1, 0.5)


def test_another_prompt_is_another_step(played, store):
    words = ["a"]

    async def work(_):
        return (await gm.complete("scripted/play", words[0])).text

    gm.batch(work, [{"id": "one"}], run_id="r", journal=store)
    words[0] = "b"
    gm.batch(work, [{"id": "one"}], run_id="s", journal=store)
    assert played.texts() == ["a", "b"]


def test_a_step_is_known_again_however_the_same_number_is_written(played, store):
    heat, is_down = [0], [True]

    async def work(_):
        found = await gm.complete("scripted/play", "x", temperature=heat[0], top_p=heat[0] + 1)
        if is_down:
            raise gm.Unavailable("elsewhere")
        return found.text

    gm.batch(work, [{"id": "one"}], run_id="r", journal=store, policy=gm.Policy(park_after_s=0.01))
    is_down.clear()
    heat[0] = 0.0
    assert one(work, run_id="r", journal=store).output == "fine"
    assert len(played.asked) == 1


def test_calls_side_by_side_in_one_job_are_each_asked_once(played):
    async def work(_):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(gm.complete("scripted/play", str(number))) for number in range(3)]
        return [task.result().text for task in tasks]

    assert one(work).output == ["fine"] * 3
    assert sorted(played.texts()) == ["0", "1", "2"]


def test_outside_of_a_batch_it_is_simply_asked(played):
    assert gm.complete("scripted/play", "x").text == "fine"

    async def work():
        return (await gm.complete("scripted/play", "y")).text

    assert asyncio.run(work()) == "fine"
    assert played.texts() == ["x", "y"]


def test_outside_of_a_batch_a_failure_is_raised_as_what_it_is(played):
    played.answers = [answer("", reason="refusal")]
    with pytest.raises(gm.Permanent, match="scripted/play: the model refused"):
        gm.complete("scripted/play", "x")


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("fst", {}, "no model 'fst' (did you mean 'fast'?)"),
        (7, {}, "model must be a name such as"),
        ("fast", {"schema": 3}, "must be a JSON Schema or a pydantic model, got 3"),
        ("fast", {"schema": {"typ": "object"}}, "unknown keyword 'typ'"),
        ("fast", {"schema": int}, "must be a JSON Schema (a dict) or a pydantic model, got <class 'int'>"),
        ("fast", {"prompt": []}, "prompt is empty"),
        ("fast", {"prompt": 5}, "prompt must be text or a list of messages {role, content}, got 5"),
        (
            "fast",
            {"role": "judge"},
            "model and role are both given; leave one out: gm.complete(prompt=…, role='judge')",
        ),
        (None, {"role": "juge"}, "(did you mean 'judge'?); write roles: {juge: provider/model} in graphmill.yaml"),
        (None, {"role": 7}, "a model or role must be a name, got 7"),
        (None, {}, "no model given"),
        ("Is it kind?", {"prompt": None}, "no prompt: the first argument, 'Is it kind?', is the model"),
        (None, {"prompt": None}, "prompt must be text or a list of messages {role, content}, got None"),
        ("judge", {}, "no model 'judge': it is a role; use its model, 'fast'"),
        (
            "fast",
            {"temperature": "hot"},
            "gm.complete: temperature: must be a number or null, got text (Sampling temperature)",
        ),
        (
            "fast",
            {"top_p": 3, "max_tokens": 0},
            "gm.complete: top_p: must be a number <= 1.0; max_tokens: must be an integer >= 1",
        ),
        ("fast", {"tools": [3]}, "gm.complete: tools.0: must be a mapping, got an integer"),
        (
            "fast",
            {"prompt": [{"role": "usr", "content": "x"}]},
            "messages.0.role: must be one of system, user, assistant, tool, got 'usr'",
        ),
        ("fast", {"timeout_s": 0}, "timeout_s must be a number > 0, got 0"),
    ],
)
def test_what_can_not_be_meant_is_refused_at_once(played, model, options, said):
    played.settings("models: {fast: scripted/a}\nroles: {judge: fast}")
    with pytest.raises(gm.UsageError) as caught:
        gm.complete(model, **{"prompt": "x", **options})
    assert said in str(caught.value)
    assert "--model" not in str(caught.value)  # which is for nodes
    assert played.asked == []


def test_a_param_is_refused_with_the_words_of_a_node(played):
    with pytest.raises(gm.UsageError) as caught:
        gm.complete("scripted/play", "x", temperature="hot", max_tokens=0)
    said = str(caught.value).removeprefix("gm.complete: ")
    given = {"temperature": "${n.t}", "max_tokens": "${n.m}", "prompt": "x"}
    assert (
        played.failure(given, inputs={"n": {"t": "hot", "m": 0}}).message
        == f"invalid params for llm: {said} (in node 'ask')"
    )


def test_a_choice_for_a_run_is_refused_with_the_same_words(played):
    graph = played.graph({"nodes": [{"id": "ask", "type": "llm", "params": {"prompt": "x"}}]})
    with pytest.raises(gm.UsageError, match="with_models: temperature: must be a number or null, got text"):
        graph.with_models("scripted/play", temperature="hot")


def test_a_number_of_another_library_is_a_number(played):
    class Float(float):
        """As NumPy's is."""

    assert gm.complete("scripted/play", "x", temperature=Float(0.5)).text == "fine"
    graph = played.graph({"nodes": [{"id": "ask", "type": "llm", "params": {"prompt": "x"}}]})
    gm.batch(graph.with_models("scripted/play", temperature=Float(0.5)), [{}])
    assert gm.complete("scripted/play", "x", temperature=Decimal("0.5")).text == "fine"
    assert [type(asked.temperature) for asked in played.asked] == [float, float, float]


def test_a_node_s_function_that_fails_after_its_answer_counts_that_once_after_a_resume(played, store, flow):
    tries, is_down = [], [True]

    @flow.act
    async def work():
        found = await gm.complete("scripted/play", "x")
        tries.append(1)
        if len(tries) == 1:
            raise gm.Transient("later")
        if is_down:
            raise gm.Unavailable("elsewhere")
        return found.text

    graph = flow.load("nodes: [{id: ask, type: python, params: {function: 'acts:work'}}]")
    policy = gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0), park_after_s=0.01)
    assert gm.batch(graph, [{"id": "one"}], run_id="r", journal=store, policy=policy).stopped == "outage"
    is_down.clear()
    (result,) = gm.batch(graph, [{"id": "one"}], run_id="r", journal=store, policy=policy).results()
    assert (result.output["result"], len(played.asked), result.usage["requests"]) == ("fine", 1, 1)


def test_what_a_node_s_function_used_before_its_question_counts_once_when_it_is_answered(played, store, flow):
    @flow.act
    async def work():
        draft = await gm.complete("scripted/play", "x")
        return [draft.text, await gm.ask("Publish?")]

    graph = flow.load("nodes: [{id: ask, type: python, params: {function: 'acts:work'}}]")
    waiting = one(graph, run_id="r", journal=store)
    assert (waiting.status, waiting.usage["requests"], waiting.cost_usd) == ("waiting", 1, 0.5)
    done = one(graph, run_id="r", journal=store, answers={"one": "yes"})
    assert (done.output["result"], len(played.asked), done.usage["requests"], done.cost_usd) == (
        ["fine", "yes"],
        1,
        1,
        0.5,
    )
