"""Questions in workflows: any step may ask; the job waits, and nothing fails by it."""

import json

import pytest

import graphmill as gm
from graphmill.core.json import item_key
from support.flows import PROMPT


class Asked:
    """Runs one job of a workflow again and again, each time with answers; ``calls`` are those since the last time."""

    def __init__(self, flow, store):
        self.flow, self.store, self.calls = flow, store, []

    def run(self, text, answer=None, **options):
        self.calls.clear()
        answers = None if answer is None else {"j": answer}
        options.setdefault("policy", PROMPT)
        report = gm.batch(
            self.flow.load(text), [{"id": "j"}], run_id="r", journal=self.store, answers=answers, **options
        )
        (result,) = report.results()
        return result


@pytest.fixture
def asked(flow, store):
    """``acts:ask`` asks for what it is given, ``acts:plain`` in a thread; ``acts:go`` gives it back, ``acts:fail`` fails."""
    found = Asked(flow, store)

    @flow.act
    async def ask(n):
        found.calls.append(f"ask {n}")
        return await gm.ask(n)

    @flow.act
    def plain(n):
        found.calls.append(f"plain {n}")
        return gm.ask(n)

    @flow.act
    async def go(n):
        found.calls.append(f"go {n}")
        return n

    @flow.act
    async def fail(n):
        found.calls.append(f"fail {n}")
        raise gm.Permanent(f"no {n}")

    @flow.act
    async def ask_if_even(n):
        found.calls.append(f"ask {n}")
        return n if n % 2 else await gm.ask(n)

    return found


def node(name, function, n, more=""):
    return (
        f'{{id: {name}, type: python, params: {{function: "acts:{function}", inputs: {{n: {json.dumps(n)}}}}}{more}}}'
    )


@pytest.mark.parametrize("function", ["ask", "plain"])
def test_a_function_of_a_node_asks_and_nodes_before_it_are_not_repeated(asked, function):
    text = f"nodes: [{node('a', 'go', 1)}, {node('b', function, 2)}, {node('c', 'go', '${b.result}')}]"
    first = asked.run(text)
    assert (first.status, first.questions, asked.calls) == ("waiting", {"b/ask#1": 2}, ["go 1", f"{function} 2"])
    assert first.error.message == "waits for an answer: 2"
    second = asked.run(text, [True])
    assert (second.output["result"], asked.calls) == ([True], [f"{function} 2", "go [True]"])


def test_the_ask_node_asks(asked):
    text = """
        inputs: {id: {type: string}}
        nodes: [{id: a, type: ask, params: {question: {"publish?": "${id}"}}}]
        outputs: {said: "${a.answer}"}
    """
    assert asked.run(text).questions == {"a/ask#1": {"publish?": "j"}}
    assert asked.run(text, "yes").output == {"said": "yes"}


@pytest.mark.parametrize("handling", ["continue", "fail_fast"])
def test_the_other_items_of_a_parallel_batch_go_on_to_their_end(asked, handling):
    batch = f", batch: {{items: [0, 1, 2, 3, 4, 5], parallel: true, max_concurrent: 2, error_handling: {handling}}}"
    text = f"nodes: [{node('each', 'ask_if_even', '${item}', batch)}]"
    first = asked.run(text)
    assert first.questions == {"each[0]/ask#1": 0, "each[2]/ask#1": 2, "each[4]/ask#1": 4}
    assert sorted(asked.calls) == [f"ask {n}" for n in range(6)]
    some = asked.run(text, {"each[0]/ask#1": "nought", "each[4]/ask#1": "four"})
    assert (some.status, some.questions, sorted(asked.calls)) == (
        "waiting",
        {"each[2]/ask#1": 2},
        ["ask 0", "ask 2", "ask 4"],
    )
    last = asked.run(text, "two")
    assert ([each["result"] for each in last.output["results"]], asked.calls) == (
        ["nought", 1, "two", 3, "four", 5],
        ["ask 2"],
    )
    assert (last.output["error_count"], last.output["cancelled_count"], last.is_degraded) == (0, 0, False)


def test_items_one_after_the_other_go_on_where_failures_would_not_stop_them(asked):
    batch = ", batch: {items: [0, 1], error_handling: continue}"
    asked.run(f"nodes: [{node('each', 'ask_if_even', '${item}', batch)}]")
    assert asked.calls == ["ask 0", "ask 1"]


def test_items_one_after_the_other_wait_where_a_failure_would_stop_them(asked):
    batch = ", batch: {items: [0, 1, 2, 3]}"
    text = f"nodes: [{node('each', 'ask_if_even', '${item}', batch)}]"
    asked.run(text)
    assert asked.calls == ["ask 0"]
    asked.run(text, "x")
    assert asked.calls == ["ask 0", "ask 1", "ask 2"]
    assert [each["result"] for each in asked.run(text, "y").output["results"]] == ["x", 1, "y", 3]


def test_a_failure_beside_a_question_fails_the_job(asked):
    text = f"""
        nodes: [{node("start", "go", 1)}, {node("a", "ask", 2)}, {node("b", "fail", 3)}]
        edges: [{{from: start, to: a}}, {{from: start, to: b}}]
    """
    failed = asked.run(text)
    assert (failed.status, failed.error.message, failed.questions) == ("failed", "no 3 (in node 'b')", {})


def test_items_that_failed_under_continue_and_one_that_asks_wait_and_are_then_counted(asked):
    batch = ", batch: {items: [ask, fail], as: word, parallel: true, error_handling: continue}"

    @asked.flow.act
    async def either(word):
        asked.calls.append(word)
        if word == "fail":
            raise gm.Permanent("no")
        return await gm.ask(word)

    text = f'nodes: [{{id: each, type: python, params: {{function: "acts:either", inputs: {{word: "${{word}}"}}}}{batch}}}]'
    assert asked.run(text).status == "waiting"
    result = asked.run(text, "yes")
    assert (result.output["success_count"], result.output["error_count"], result.is_degraded) == (1, 1, True)
    assert asked.calls == ["ask"]


def test_no_error_edge_is_taken_by_a_question_and_branches_beside_it_go_on(asked):
    text = f"""
        nodes: [{node("start", "go", 0)}, {node("a", "ask", 1)}, {node("handler", "go", "handled")}, {node("b", "go", 2)},
                {node("c", "go", 3)}, {node("end", "go", "${a.result}")}]
        edges: [{{from: start, to: a}}, {{from: start, to: b}}, {{from: a, to: handler, action: error}}, {{from: b, to: c}},
                {{from: a, to: end}}, {{from: c, to: end}}]
    """
    assert asked.run(text).questions == {"a/ask#1": 1}
    assert asked.calls[:1] == ["go 0"]
    assert sorted(asked.calls[1:]) == ["ask 1", "go 2", "go 3"]
    assert (asked.run(text, 7).output["result"], asked.calls) == (7, ["ask 1", "go 7"])


def test_a_handled_failure_before_a_question_stands(asked):
    text = f"""
        nodes: [{node("a", "fail", 1)}, {node("b", "ask", "${a.error.message}")}, {node("c", "ask", 2)}]
        edges: [{{from: a, to: b, action: error}}, {{from: b, to: c}}]
    """
    assert [asked.run(text, answer).questions for answer in (None, 1)] == [{"b/ask#1": "no 1"}, {"c/ask#1": 2}]
    assert (asked.run(text, 2).output["result"], asked.calls) == (2, ["ask 2"])


@pytest.mark.parametrize("timeout", ["", ", timeout: 60"])
def test_each_round_of_a_loop_asks_for_itself_and_keep_does_not_end_it(asked, timeout):
    loop = f', loop: {{max: 3, until: {{enough: "${{round.result.enough}}"}}, on_error: keep{timeout}}}'
    text = f"nodes: [{node('a', 'ask', '${__round__}', loop)}]"
    assert asked.run(text).questions == {"a@1/ask#1": 1}
    assert asked.run(text, {"enough": False}).questions == {"a@2/ask#1": 2}
    last = asked.run(text, {"enough": True})
    assert (last.output["round_count"], last.output["stop"], asked.calls) == (2, "enough", ["ask 2"])


def test_a_child_in_a_batch_asks_under_its_own_path(asked):
    text = f"""
        nodes:
          - id: outer
            type: workflow
            params: {{inputs: {{x: "${{item}}"}}, workflow: {{inputs: {{x: {{}}}}, nodes: [{node("inner", "ask", "${x}")}]}}}}
            batch: {{items: [a, b], parallel: true}}
    """
    assert asked.run(text).questions == {"outer[0]/inner/ask#1": "a", "outer[1]/inner/ask#1": "b"}
    last = asked.run(text, {"outer[0]/inner/ask#1": 1, "outer[1]/inner/ask#1": 2})
    assert [each["result"] for each in last.output["results"]] == [1, 2]


def test_a_step_that_must_not_happen_twice_may_ask(asked):
    text = f"nodes: [{node('a', 'ask', 1, ', effect: unsafe')}]"
    asked.run(text)
    assert asked.run(text, "go").output["result"] == "go"


def test_what_a_step_used_before_it_asked_is_counted(asked, metered):
    text = "nodes: [{id: a, type: curious, params: {question: sure}}]"
    assert asked.run(text).cost_usd == 0.5
    last = asked.run(text, "yes")
    assert (last.output, last.cost_usd, last.usage["input_tokens"]) == ({"answer": "yes", "attempt": 2}, 1.0, 4)
    assert metered.calls[-2:] == ["sure", "sure"]


def test_a_question_that_holds_a_secret_is_kept_without_it(asked, monkeypatch):
    monkeypatch.setenv("ACCESS_KEY", 'a "secret" key')
    text = f"nodes: [{node('a', 'ask', {'env': 'ACCESS_KEY'})}]"
    assert asked.run(text).questions == {"a/ask#1": "{env: ACCESS_KEY}"}
    result = asked.run(text, "ok")
    history = asked.store.archive.history(asked.store.archive.find("r"), item_key("j"))
    assert (result.output["result"], "secret" in repr(history)) == ("ok", False)


def test_a_job_that_asks_in_a_run_without_a_journal_says_what_it_needs(flow, asked):
    del asked
    error = flow.failure(f"nodes: [{node('a', 'ask', 1)}]")
    assert (error.kind, "give the batch a run_id" in error.message) == ("permanent", True)
