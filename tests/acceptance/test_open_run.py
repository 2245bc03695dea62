"""A recorded run read from Python: results, traces, the manifest."""

import pytest

import graphmill as gm
from support.asked_model import answer
from support.command import answered

DEBATE = """
    name: debate
    inputs: {problem: {type: string, required: true}}
    nodes:
      - id: debate
        type: workflow
        loop: {max: 2}
        params:
          inputs: {problem: "${problem}"}
          workflow:
            inputs: {problem: {type: string}}
            nodes:
              - {id: solve, type: llm, params: {role: solver, prompt: "Solve ${problem}."}}
              - {id: length, type: code, params: {inputs: {text: "${solve.response}"}, code: "result = len(text)"}}
            outputs: {answer: "${solve.response}"}
    outputs: {answer: "${debate.best.answer}"}
"""


@pytest.fixture
def debates(played):
    """A run of three items, the second of which failed."""
    played.settings("roles: {solver: {model: scripted/play, temperature: 0.5}}")
    played.by = lambda request: (
        gm.Permanent("cannot solve this") if "b" in request.messages[-1].text else answer("x", tokens=(5, 3))
    )
    items = [{"id": name, "problem": name} for name in ("a1", "b2", "c3")]
    gm.batch(played.graph(DEBATE), items, run_id="d1")
    return gm.open_run("d1")


def test_results_are_read_in_input_order_and_by_status(debates):
    assert [result.job_id for result in debates.results()] == ["a1", "b2", "c3"]
    assert [result.job_id for result in debates.results(status="failed")] == ["b2"]
    assert [result.job_id for result in debates.results(offset=1, limit=1)] == ["b2"]
    with pytest.raises(gm.UsageError, match="did you mean 'succeeded'"):
        list(debates.results(status="suceeded"))


def test_a_trace_has_the_steps_of_an_item_with_what_models_were_sent_and_answered(debates):
    first, second, _ = debates.traces()
    assert (first.run_id, first.item_id, first.row, first.sample, first.status) == ("d1", "a1", 1, 0, "succeeded")
    assert (first.input, first.output) == ({"id": "a1", "problem": "a1"}, {"answer": "x"})
    assert [(step.node, step.round, step.path) for step in first.steps] == [
        ("solve", 1, "debate@1/solve"),
        ("length", 1, "debate@1/length"),
        ("solve", 2, "debate@2/solve"),
        ("length", 2, "debate@2/length"),
    ]
    solve, length = first.steps[:2]
    assert (solve.role, solve.model, solve.attempt, solve.cached) == ("solver", "scripted/play", 1, False)
    assert solve.request == {
        "messages": [{"role": "user", "content": "Solve a1."}],
        "params": {"temperature": 0.5},
    }
    assert (solve.response["text"], solve.usage.input_tokens, solve.cost_nano) == ("x", 5, 500_000_000)
    assert 0 <= solve.began_s <= length.began_s
    assert (length.request, length.role, length.output["result"]) == (None, None, 1)
    assert "cannot solve this" in second.error.message
    assert [(step.response, step.error["kind"]) for step in second.steps] == [(None, "permanent")]


def test_steps_have_ids_that_no_other_step_has_and_that_stay(debates):
    ids = [step.id for trace in debates.traces() for step in trace.steps]
    assert len(set(ids)) == len(ids) == 9
    assert [step.id for trace in gm.open_run("d1").traces() for step in trace.steps] == ids


def test_one_item_is_found_by_row_id_or_beginning(debates):
    assert debates.trace("2").item_id == debates.trace("b2").item_id == debates.trace("b").item_id == "b2"
    with pytest.raises(gm.UsageError, match="no record of an item 'z'"):
        debates.trace("z")


def test_an_item_that_was_retried_has_the_steps_that_count(debates, played):
    played.by = None
    played.answers = ["now"]
    gm.retry("d1")
    trace = debates.trace("b2")
    assert (trace.generation, trace.status, trace.output) == (2, "succeeded", {"answer": "now"})
    assert [step.generation for step in trace.steps] == [2, 2, 2, 2]


def test_functions_that_ask_models_have_traces_too_and_an_answer_that_was_asked_again_says_why(played):
    played.answers = ["nothing", '{"n": 1}']

    async def inner(word):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        return await gm.complete("scripted/play", f"Count {word}.", schema=schema)

    async def work(item):
        return await gm.step(inner, item["id"])

    gm.batch(work, [{"id": "one"}], run_id="f")
    (trace,) = gm.open_run("f").traces()
    outer, first, second = trace.steps
    assert (outer.path, outer.output, outer.usage) == ("inner#1", {"n": 1}, None)
    assert [step.path for step in (first, second)] == ["inner#1/complete#1"] * 2
    assert (first.node, first.response["text"], second.problem) == ("inner", "nothing", None)
    assert "JSON" in first.problem
    assert first.id != second.id
    assert [message["role"] for message in second.request["messages"]][-2:] == ["assistant", "user"]
    assert sum(step.cost_nano or 0 for step in trace.steps) == next(gm.open_run("f").results()).cost_nano


def test_a_run_is_found_by_its_beginning_and_a_missing_one_is_refused(debates):
    assert gm.open_run("d").id == "d1"
    assert debates.manifest["graph"]["name"] == "debate"
    with pytest.raises(gm.UnknownRunError):
        gm.open_run("zzz")


def test_a_batch_node_called_ask_is_no_question(tmp_path, played):
    graph = """
        nodes:
          - {id: ask, type: llm, params: {model: scripted/play, prompt: "${w}"}, batch: {items: [a, b], as: w}}
    """
    gm.run(played.graph(graph), run_id="asks")
    assert "2/2 items succeeded" in answered(tmp_path, "show", "asks", "job")


def test_the_manifest_has_the_text_of_the_workflow_with_its_parts_and_what_names_of_models_mean(tmp_path, played):
    played.settings(
        "models: {strong: {model: scripted/big, seed: 7}}\nroles: {solver: {model: strong, temperature: 0.5}}"
    )
    (tmp_path / "prompt.md").write_text("Solve it.")
    child = "nodes: [{id: solve, type: llm, params: {role: solver, prompt: !file prompt.md}}]\n"
    (tmp_path / "child.yaml").write_text(child)
    parent = """\
nodes:
  - {id: part, type: workflow, params: {workflow: child.yaml}}
  - {id: ask, type: llm, params: {model: strong, prompt: x}}
"""
    gm.run(played.graph(parent), run_id="m")
    graph = gm.open_run("m").manifest["graph"]
    assert {path.rpartition("/")[2]: text for path, text in graph["texts"].items()} == {
        "w.yaml": parent,
        "child.yaml": child,
        "prompt.md": "Solve it.",
    }
    assert graph["resolved"] == {
        "solver": {"model": "scripted/big", "params": {"seed": 7, "temperature": 0.5}},
        "strong": {"model": "scripted/big", "params": {"seed": 7}},
    }


ASK = "nodes: [{id: ask, type: llm, params: {model: scripted/play, prompt: hello}}]"


async def ask(_):
    return (await gm.complete("scripted/play", "hello")).text


@pytest.mark.parametrize(("work", "attempts"), [(ask, [1, 2, 3]), (ASK, [1, 2, 2, 3])])
def test_attempts_are_numbered_and_stand_in_their_order_also_after_a_restart(played, work, attempts):
    runs = []

    def fail_twice(request):
        if request.origin.attempt == 3:
            return answer("x")
        if request.origin.attempt == 2:
            runs[0].drain()  # the node's next attempt is left to the next process, whose clock starts anew
        return gm.Transient("failed")

    played.by = fail_twice
    policy = gm.Policy(retry=gm.Retry(attempts=3, wait_s=0.05, jitter=False))
    for _ in range(2):
        graph = played.graph(work) if work is ASK else work
        report = gm.batch(graph, [{"id": "one"}], run_id="f", policy=policy, on_start=runs.append)
    assert report.summary() == "1/1 items succeeded"
    (trace,) = gm.open_run("f").traces()
    assert [step.attempt for step in trace.steps] == attempts
    assert [step.error is None for step in trace.steps] == [False] * (len(attempts) - 1) + [True]
