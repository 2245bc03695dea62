import asyncio
import json

import pytest
from msgspec.structs import replace

from graphmill.core.errors import AttemptError, Throttled, Transient, Unavailable
from graphmill.core.model_call import FinishReason, Message, ModelRequest, ModelResponse, Origin
from graphmill.core.usage import Usage
from graphmill.graph.registry import find_provider
from graphmill.providers.scripted.sample import sample_value
from graphmill.providers.scripted.script import FAULTS, Latency
from support.virtual_clock import run_virtual

SCRIPTED = find_provider("scripted")
GIVEN = {"key": None, "headers": {}}
ASK = ModelRequest(model="echo", messages=(Message("user", "hello there"),))


@pytest.fixture
def write(tmp_path):
    def put(text):
        path = tmp_path / "script.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return put


def of(item="a", **more):
    return replace(ASK, origin=Origin(item=item, **more))


async def answer_of(session, request, address, timeout_s=None):
    """Ask once; an error stands for its answer."""
    try:
        return await SCRIPTED.complete(request, session=session, address=address, timeout_s=timeout_s, **GIVEN)
    except AttemptError as error:
        return error


def answers(address, *requests, timeout_s=None):
    """Ask one after the other in one session."""

    async def ask_all():
        session = SCRIPTED.open()
        return [await answer_of(session, request, address, timeout_s) for request in requests]

    return asyncio.run(ask_all())


def texts(address, *requests):
    return [answer.text for answer in answers(address, *requests)]


def test_without_a_script_a_prompt_is_its_own_answer_and_costs_nothing():
    (answer,) = answers("", ASK)
    assert answer == ModelResponse(
        text="hello there", model="echo", usage=Usage(requests=1, input_tokens=3, output_tokens=3)
    )


def test_the_first_rule_that_fits_answers_by_item_round_and_attempt(write):
    address = write(
        """
        rules:
        - {item: a, round: 2, answer: "second of ${item}"}
        - {item: [b, 7], attempt: 1, fault: server_error}
        - {path: solve, sample: 1, answer: {verdict: 1}}
        - {text: there, model: echo, answer: "${item}/${path}/${round}/${sample}/${attempt}: ${prompt}"}
        """
    )
    first, second, failed, third, structured = answers(
        address, of("a"), of("a", round=2), of("b"), of("7", attempt=2), of("c", path="solve", sample=1)
    )
    assert first.text == "a//1/0/1: hello there"
    assert second.text == "second of a"
    assert type(failed) is Transient
    assert third.text == "7//1/0/2: hello there"
    assert structured.text == '{"verdict":1}'


def test_patterns_match_whole_names_and_parts_of_messages(write):
    address = write(
        """
        rules:
        - {item: "a*z", answer: ends}
        - {item: ["b", "c*"], node: "*verify", role: judge, answer: judge}
        - {path: "debate@2/*", answer: second}
        - {text: "h*o th", round: [2, 3], answer: found}
        - {text: "${input.secret}", answer: knows}
        - {answer: other}
        """
    )
    knowing = replace(of("e", input={"secret": "lo t"}))
    asked = [
        of("abz"),
        of("abzc"),
        of("c1", node="my-verify", role="judge"),
        of("d1", node="my-verify", role="judge"),
        of("x", path="debate@2/solve"),
        of("x", round=3),
        of("x", round=4),
        knowing,
        of("e", input={"secret": "hell t"}),
        of("a"),
    ]
    assert texts(address, *asked) == [
        "ends", "other", "judge", "other", "second", "found", "other", "knows", "other", "other",
    ]  # fmt: skip


def test_what_is_put_into_an_answer_is_not_read_again(write):
    address = write('rules: [{answer: "<${prompt}>"}]')
    assert texts(address, replace(ASK, messages=(Message("user", "${item} ${prompt}"),))) == ["<${item} ${prompt}>"]


def test_a_share_is_drawn_alike_each_time_and_anew_for_each_attempt(write):
    address = write("seed: 3\nrules: [{share: 0.25, fault: throttled}]")
    requests = [of(str(number)) for number in range(400)]
    drawn = [isinstance(answer, Throttled) for answer in answers(address, *requests)]
    assert 60 < sum(drawn) < 140
    assert drawn == [isinstance(answer, Throttled) for answer in answers(address, *requests)]
    again = [replace(request, origin=replace(request.origin, attempt=2)) for request in requests]
    assert drawn != [isinstance(answer, Throttled) for answer in answers(address, *again)]


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"silence"}))
def test_every_fault_ends_a_call_and_none_is_a_success(write, fault):
    (answer,) = answers(write(f"rules: [{{fault: {fault}}}]"), ASK)
    assert answer.error() is not None if isinstance(answer, ModelResponse) else isinstance(answer, Exception)


def test_an_answer_that_is_cut_has_half_of_its_text(write):
    (answer,) = answers(write("rules: [{fault: length, answer: abcdef}]"), ASK)
    assert (answer.text, answer.finish_reason) == ("abc", FinishReason.LENGTH)


def test_silence_lasts_until_the_time_is_up(write):
    (answer,) = answers(write("rules: [{fault: silence}]"), ASK, timeout_s=0.05)
    assert (type(answer), str(answer)) == (Transient, "scripted: no complete response within 0.05 s")


def test_only_so_many_are_borne_at_once(write):
    address = write("latency: 1\nthrottle: {at_once: 2, retry_after_s: 3}")

    async def thrice():
        session = SCRIPTED.open()
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(answer_of(session, of(str(number)), address)) for number in range(3)]
        return [task.result() for task in asked]

    *fine, refused = run_virtual(thrice())
    assert [answer.text for answer in fine] == ["hello there"] * 2
    assert (type(refused), refused.retry_after_s, refused.limits.retry_after_s) == (Throttled, 3.0, 3.0)


def test_only_so_many_are_borne_in_a_minute_and_the_wait_is_told(write):
    address = write("latency: 10\nthrottle: {per_minute: 2}")

    async def calls():
        session, found = SCRIPTED.open(), []
        for number in range(4):
            answer = await answer_of(session, of(str(number)), address)
            found.append(getattr(answer, "retry_after_s", None))
            await asyncio.sleep(found[-1] or 0)
        return found

    assert run_virtual(calls()) == [None, None, 40.0, None]


def test_latencies_follow_their_curve():
    curve = Latency(median_s=2.0, p99_s=20.0, knee=10)
    assert curve.seconds(0.5, 1) == pytest.approx(2.0)
    assert curve.seconds(0.99, 10) == pytest.approx(20.0)
    assert curve.seconds(0.5, 20) == pytest.approx(4.0)
    assert curve.seconds(0.0, 1) > 0
    assert Latency(median_s=2.0).seconds(0.99, 99) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [{fault: trottled}]", "script.yaml:1:17: "),
        ("rulez: []", "(did you mean 'rules'?)"),
        ("rules: [{share: 2}]", "<= 1, got 2"),
        ("rules: [7]", "script.yaml:1:9: a rule must be a mapping"),
        ("latency: {median: 1}", "'median_s' is missing"),
        ("rules: [{round: [1, x]}]", "an integer"),
        ("rules: [{item: {a: 1}}]", "any text"),
        ("rules: [{answer: '${ite}'}]", "did you mean 'item'?"),
        ("rules: [{text: '${'}]", "script.yaml:1:16: "),
        ("rules: [{fault: down, answer: x}]", "remove one"),
        ("[]", "rules must be a mapping"),
        ("rules: [", "script.yaml:2:1: "),
    ],
)
def test_a_script_with_a_mistake_is_unavailable_and_says_where(write, text, message):
    (error,) = answers(write(text), ASK)
    assert type(error) is Unavailable
    assert message in str(error)


def test_a_script_that_is_not_there_is_unavailable():
    (error,) = answers("nowhere/script.yaml", ASK)
    assert type(error) is Unavailable
    assert "'nowhere/script.yaml'" in str(error)


def test_a_function_answers_text_data_or_a_response_and_may_raise(tmp_path, monkeypatch):
    (tmp_path / "my_models.py").write_text(
        """
from graphmill.core.errors import Permanent
from graphmill.core.model_call import ModelResponse

async def later(request):
    return f"{request.origin.item} asked {request.messages[-1].text}"

def data(request):
    return {"n": 1}

def whole(request):
    return ModelResponse(text="mine")

def no(request):
    raise Permanent("never")
""",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert texts("my_models:later", of("a")) == ["a asked hello there"]
    assert texts("my_models:data", ASK) == ['{"n":1}']
    assert texts("my_models:whole", ASK) == ["mine"]
    (error,) = answers("my_models:no", ASK)
    assert str(error) == "never"
    (error,) = answers("my_models:nobody", ASK)
    assert type(error) is Unavailable
    assert "cannot load the function my_models:nobody: my_models has no 'nobody'" in str(error)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
            },
            {"a": "text", "b": [0]},
        ),
        ({"enum": ["x", "y"]}, "x"),
        ({"const": 5}, 5),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "number", "maximum": -3}, -3),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, 0.5),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
        ({"type": "integer", "exclusiveMinimum": 4}, 5),
        ({"type": "integer", "minimum": 7, "multipleOf": 5}, 10),
        ({"type": "array", "prefixItems": [{"const": 1}, {"type": "boolean"}]}, [1, True]),
        ({"type": "array", "maxItems": 0}, []),
        (
            {
                "allOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {"const": 2}}}],
                "$defs": {"a": {"properties": {"a": {"const": 1}}}},
            },
            {"a": 1, "b": 2},
        ),
        ({"type": "string", "minLength": 6}, "texttt"),
        ({"type": ["boolean", "null"]}, True),
        ({"type": "null"}, None),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}}, True),
        ({}, "text"),
    ],
)
def test_where_structure_is_asked_for_an_answer_has_it(schema, value):
    assert sample_value(schema) == value
    assert json.loads(texts("", replace(ASK, schema=schema))[0]) == value


def test_a_schema_that_never_ends_has_an_answer_that_does():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"next": {"$ref": "#/$defs/a"}}}}}
    assert len(json.dumps(sample_value(schema))) < 1000


def test_it_names_a_model_and_knows_what_a_status_means():
    assert asyncio.run(SCRIPTED.models(session=None, address="", timeout_s=None, **GIVEN)) == ["echo"]
    assert type(SCRIPTED.classify(429, {}, b"")) is Throttled
