"""The workflow language: the loop block, rule by rule."""

import asyncio

import pytest

import graphmill as gm
from support.flows import now, succeeded


@pytest.fixture
def rounds(flow):
    """``acts:go`` gives the next of the list of its round; notes what it was given and when."""
    calls = []

    @flow.act
    async def go(given, n, past=None, seconds=0):
        calls.append({"n": n, "past": past, "at": now()})
        await asyncio.sleep(seconds)
        value = given[n - 1]
        if isinstance(value, str) and value.startswith("fail"):
            raise (gm.Transient if "transient" in value else gm.Permanent)(value)
        return value

    return calls


def loop(rule, more="", extra=""):
    return f"""
        inputs: {{given: {{default: [a, b, c, d, e, f]}}, most: {{default: 3}}, seconds: {{default: 0}}}}
        nodes:
          - id: again
            type: python
            params: {{function: "acts:go", inputs: {{given: "${{given}}", n: "${{__round__}}", seconds: "${{seconds}}"{more}}}}}
            loop: {{{rule}}}
            {extra}
    """


def results(output):
    return [each["result"] for each in output["rounds"]]


def test_the_output_of_the_node_is_as_the_language_says(flow, rounds):
    output = succeeded(flow.timed(loop("max: 2")))
    first, last = ({"result": value, "stdout": "", "stderr": ""} for value in "ab")
    assert output == {
        "best": last,
        "best_round": 2,
        "rounds": [first, last],
        "round_count": 2,
        "stop": "max_rounds",
        "error": None,
    }


def test_rounds_are_counted_from_1_and_run_one_after_the_other(flow, rounds):
    succeeded(flow.timed(loop("max: 3"), {"seconds": 2}))
    assert [(call["n"], call["at"]) for call in rounds] == [(1, 0), (2, 2), (3, 4)]


def test_max_may_be_a_template(flow, rounds):
    assert succeeded(flow.timed(loop('max: "${most}"'), {"most": 4}))["round_count"] == 4


@pytest.mark.parametrize("most", [0, -1, 1001, "3", 2.0, True, None, []])
def test_a_max_that_is_no_number_of_rounds_is_a_permanent_failure(flow, rounds, most):
    result = flow.timed(loop('max: "${most}", timeout: 5, on_error: keep'), {"most": most})
    assert (result.status, result.error.kind, rounds) == ("failed", "permanent", [])
    assert "1000" in result.error.message


@pytest.mark.parametrize(
    "rule",
    [
        "max: 3, until: {a: '${inp}'}",
        "max: 3, until: {a: 'x ${round.x}'}",
        "max: 3, keep: {max: []}",
        "max: 3, keep: {max: ['${round.x}', '${inp}']}",
        "max: 3, keep: {max: ['${round.x}', '${round.y}']}",
        "max: 3, history: inp",
    ],
)
def test_a_field_that_is_not_what_the_table_says_is_refused(flow, rule):
    assert flow.problems(
        f"{{inputs: {{inp: {{default: 1}}}}, nodes: [{{id: a, type: value, params: {{x: 1}}, loop: {{{rule}}}}}]}}"
    )


def test_a_reference_into_the_round_is_checked_against_the_type_s_outputs(flow):
    assert "result" in flow.problem(
        "nodes: [{id: a, type: code, params: {code: 'result = 1'}, loop: {max: 3, until: {done: '${round.reslt}'}}}]"
    )


# Why it stops.


def test_until_stops_with_its_reason_when_it_is_truthy(flow, rounds):
    output = succeeded(flow.timed(loop('max: 6, until: {passed: "${round.result}"}'), {"given": [0, "", 1, 1]}))
    assert (output["stop"], output["round_count"], len(rounds)) == ("passed", 3, 3)


@pytest.mark.parametrize("value", [0, "", False, None, [], {}, "false", " False\n"])
def test_what_is_falsy_does_not_stop_it(flow, rounds, value):
    assert (
        succeeded(flow.timed(loop('max: 2, until: {passed: "${round.result}"}'), {"given": [value, value]}))["stop"]
        == "max_rounds"
    )


def test_the_first_reason_that_holds_is_the_one(flow, rounds):
    given = {"given": [{"a": 0, "b": 0}, {"a": 1, "b": 1}]}
    for first, second in [("a", "b"), ("b", "a")]:
        rule = f'max: 6, until: {{is_{first}: "${{round.result.{first}}}", is_{second}: "${{round.result.{second}}}"}}'
        assert succeeded(flow.timed(loop(rule), given))["stop"] == f"is_{first}"


def test_until_goes_before_repeats_and_both_before_max_rounds(flow, rounds):
    given = {"given": [{"p": 0, "c": "same"}, {"p": 1, "c": "same"}]}
    rule = 'max: 2, until: {passed: "${round.result.p}"}, repeats: {circular: "${round.result.c}"}'
    assert succeeded(flow.timed(loop(rule), given))["stop"] == "passed"
    assert succeeded(flow.timed(loop(rule), {"given": [{"p": 0, "c": "same"}] * 2}))["stop"] == "circular"


def test_repeats_stops_when_the_text_is_that_of_any_earlier_round(flow, rounds):
    output = succeeded(
        flow.timed(
            loop('max: 6, repeats: {circular: "${round.result}"}'),
            {"given": ["one thing", "quite another", "one thing", "x"]},
        )
    )
    assert (output["stop"], output["round_count"]) == ("circular", 3)


CRITIQUE = " ".join(f"step {n} of the proof lacks a reason;" for n in range(10))


@pytest.mark.parametrize(
    ("similarity", "stops"), [("", True), (", similarity: 0.99", False), (", similarity: 1", False)]
)
def test_repeats_stops_when_the_text_is_nearly_that_of_an_earlier_round(flow, rounds, similarity, stops):
    given = {"given": [CRITIQUE, "x", CRITIQUE.replace("step 5", "line 5"), "y"]}
    output = succeeded(flow.timed(loop(f'max: 4, repeats: {{circular: "${{round.result}}"}}{similarity}'), given))
    assert (output["stop"], output["round_count"]) == (("circular", 3) if stops else ("max_rounds", 4))


def test_a_first_round_repeats_nothing_and_values_are_compared_as_text(flow, rounds):
    output = succeeded(
        flow.timed(
            loop('max: 6, repeats: {circular: "${round.result}"}'), {"given": [{"a": [1]}, {"b": "no"}, {"a": [1]}, 0]}
        )
    )
    assert (output["stop"], output["round_count"]) == ("circular", 3)


def test_two_repeats_are_compared_each_with_its_own(flow, rounds):
    given = {
        "given": [
            {"a": "first text", "b": "2nd words"},
            {"a": "2nd words", "b": "first text"},
            {"a": "xyz", "b": "2nd words"},
        ]
    }
    rule = 'max: 3, repeats: {in_a: "${round.result.a}", in_b: "${round.result.b}"}'
    assert succeeded(flow.timed(loop(rule), given))["stop"] == "in_b"


def test_max_rounds(flow, rounds):
    assert succeeded(flow.timed(loop("max: 1")))["stop"] == "max_rounds"


def test_on_error_is_fail_unless_said_otherwise(flow, rounds):
    result = flow.timed(loop("max: 6"), {"given": ["a", "fail at 2", "c"]})
    assert (result.status, "fail at 2" in result.error.message, len(rounds)) == ("failed", True, 2)


def test_on_error_keep_ends_with_the_rounds_so_far(flow, rounds):
    output = succeeded(flow.timed(loop("max: 6, on_error: keep"), {"given": ["a", "b", "fail transient", "d"]}))
    assert (output["stop"], results(output), output["best_round"], [call["n"] for call in rounds]) == (
        "error",
        ["a", "b"],
        2,
        [1, 2, 3, 3, 3],
    )


def test_the_error_that_ended_a_loop_is_among_its_outputs(flow, rounds):
    output = succeeded(flow.timed(loop("max: 6, on_error: keep"), {"given": ["a", "fail for good"]}))
    assert output["error"] == {
        "message": "fail for good",
        "kind": "permanent",
        "type": "graphmill.Permanent",
        "attempts": 1,
    }
    more = (
        "nodes: [{id: a, type: value, params: {x: 1}, loop: {max: 1}}]\noutputs: {why: '${a.error.kind ?? \"none\"}'}"
    )
    assert flow.output(more) == {"why": "none"}


def test_on_error_keep_without_any_round_is_a_failure(flow, rounds):
    result = flow.timed(loop("max: 6, on_error: keep"), {"given": ["fail at once"]})
    assert (result.status, result.error.kind) == ("failed", "permanent")


def test_on_error_keep_holds_for_templates_that_are_missing_in_a_round(flow):
    output = succeeded(
        flow.timed(
            """
            nodes:
              - {id: again, type: value, params: {x: "${table[${__round__}]}"}, loop: {max: 9, on_error: keep}}
            inputs: {table: {default: [0, 1, 2]}}
            """
        )
    )
    assert (output["stop"], output["round_count"]) == ("error", 2)


def test_on_error_keep_holds_for_time_outs(flow, rounds):
    @flow.act
    async def slower(n):
        await asyncio.sleep(n * 4)
        return n

    output = succeeded(
        flow.timed(
            """
            nodes:
              - id: again
                type: python
                params: {function: "acts:slower", inputs: {n: "${__round__}"}}
                timeout: 9
                loop: {max: 9, on_error: keep}
            """
        )
    )
    assert (output["stop"], results(output)) == ("error", [1, 2])


def test_a_failed_round_is_retried_by_the_node_s_rule_before_it_counts(flow):
    calls = []

    @flow.act
    async def flaky(n):
        calls.append(n)
        if calls.count(n) < 3:
            raise gm.Transient("not yet")
        return n

    output = succeeded(
        flow.timed(
            'nodes: [{id: again, type: python, params: {function: "acts:flaky", inputs: {n: "${__round__}"}}, loop: {max: 2}}]'
        )
    )
    assert (results(output), calls) == ([1, 2], [1, 1, 1, 2, 2, 2])


def test_timeout_is_for_the_whole_loop_and_stops_it_with_deadline(flow, rounds):
    result = flow.timed(loop("max: 6, timeout: 10"), {"seconds": 4})
    output = succeeded(result)
    assert (output["stop"], results(output), result.duration_s, len(rounds)) == ("deadline", ["a", "b"], 10, 3)
    assert result.metadata["partial"] is True  # the third round was cut off


@pytest.mark.parametrize(("seconds", "stop"), [(10, "deadline"), (None, "max_rounds")])
def test_timeout_may_be_a_template_and_null_is_none(flow, rounds, seconds, stop):
    output = succeeded(flow.timed(loop('max: 6, timeout: "${most}"'), {"seconds": 4, "most": seconds}))
    assert output["stop"] == stop


@pytest.mark.parametrize("key", ["timeout", "budget_usd"])
@pytest.mark.parametrize("limit", [0, -1, "3", True, float("inf")])
def test_a_limit_that_is_no_number_above_zero_is_a_permanent_failure(flow, rounds, key, limit):
    result = flow.timed(loop(f'max: 3, {key}: "${{most}}"'), {"most": limit})
    assert (result.status, result.error.kind, rounds) == ("failed", "permanent", [])
    assert f"loop.{key} must be a number > 0 or null" in result.error.message


def test_what_runs_at_the_deadline_is_cancelled(flow):
    cancelled = []

    @flow.act
    async def long(n):
        try:
            await asyncio.sleep(6)
        except asyncio.CancelledError:
            cancelled.append((n, now()))
            raise
        return n

    succeeded(
        flow.timed(
            'nodes: [{id: a, type: python, params: {function: "acts:long", inputs: {n: "${__round__}"}}, loop: {max: 9, timeout: 10}}]'
        )
    )
    assert cancelled == [(2, 10)]


def test_a_deadline_before_any_round_has_ended_is_a_failure(flow, rounds):
    result = flow.timed(loop("max: 6, timeout: 10, on_error: keep"), {"seconds": 50})
    assert result.is_failure
    assert result.duration_s == 10


def test_a_deadline_keeps_the_best_of_the_rounds_so_far(flow, rounds):
    output = succeeded(
        flow.timed(loop('max: 6, timeout: 10, keep: {max: "${round.result}"}'), {"given": [5, 1, 9], "seconds": 4})
    )
    assert (output["best"]["result"], output["best_round"], output["stop"]) == (5, 1, "deadline")


def test_a_deadline_also_ends_a_wait_between_attempts(flow, rounds):
    result = flow.timed(
        loop("max: 6, timeout: 10", extra="retry: {wait_s: 100, cap_s: 1000}"),
        {"given": ["a", "fail transient"], "seconds": 1},
    )
    assert (succeeded(result)["stop"], result.duration_s) == ("deadline", 10)


class TestTimeThatServersTake:
    """The time limit of a loop stands still while everything in it waits for rate limits, or as a server asked."""

    def test_it_stands_still_while_the_only_step_waits_as_asked(self, flow):
        calls = []

        @flow.act
        async def busy(n):
            calls.append(n)
            await asyncio.sleep(3)
            if calls.count(n) == 1:
                raise gm.Throttled(retry_after_s=100)
            return n

        text = 'nodes: [{id: a, type: python, params: {function: "acts:busy", inputs: {n: "${__round__}"}}, loop: {max: 9, timeout: %s}}]'
        result = flow.timed(text % 20)
        assert (succeeded(result)["stop"], result.output["round_count"]) == ("deadline", 3)
        assert result.duration_s == 20 + 3 * 100  # the fourth round was cut after its wait had ended
        calls.clear()
        assert succeeded(flow.timed(text % 55))["stop"] == "max_rounds"

    def test_it_goes_on_while_anything_else_runs(self, flow):
        @flow.act
        async def some(n):
            await asyncio.sleep(1 if n == 0 else 500)
            if n == 0:
                raise gm.Throttled(retry_after_s=100)

        result = flow.timed(
            """
            nodes:
            - id: a
              type: workflow
              loop: {max: 2, timeout: 20}
              params:
                workflow:
                  nodes:
                  - {id: b, type: python, batch: {times: 2, as: n, parallel: true}, params: {function: "acts:some", inputs: {n: "${n}"}}}
            """
        )
        assert (result.is_failure, result.duration_s) == (True, 20)

    @pytest.mark.parametrize("kind", ["llm", "python"])
    def test_waits_for_the_rate_limit_of_a_model_do_not_count(self, flow, played, kind):
        played.settings("", provider=", limits: {requests_per_minute: 1}")

        async def slowly(_request):
            await asyncio.sleep(2)
            return "fine"

        @flow.act
        async def ask():
            return (await gm.complete("scripted/play", "Now?")).text

        played.by = slowly
        params = {"llm": "{model: scripted/play, prompt: 'Now?'}", "python": '{function: "acts:ask"}'}[kind]
        result = flow.timed(f"nodes: [{{id: a, type: {kind}, params: {params}, loop: {{max: 4, timeout: 10}}}}]")
        assert (succeeded(result)["stop"], result.duration_s > 180) == ("max_rounds", True)
        assert "partial" not in result.metadata

    def test_it_goes_on_when_the_attempt_ends_that_had_a_call_wait(self, flow, played):
        played.settings("", provider=", limits: {requests_per_minute: 1}")
        begun, left = [], []

        async def at_once(_request):
            return "fine"

        @flow.act
        async def ask():
            begun.append(now())
            if len(begun) == 1:
                await gm.complete("scripted/play", "Now?")
                # A task of the function's own, which it leaves behind.
                left.append(asyncio.create_task(gm.complete("scripted/play", "And now?")))  # noqa: TID251
                await asyncio.sleep(1)
                raise gm.Transient("no")
            await asyncio.sleep(50)

        played.by = at_once
        result = flow.timed(
            'nodes: [{id: a, type: python, params: {function: "acts:ask"}, loop: {max: 2, timeout: 20}}]'
        )
        assert (result.is_failure, begun, result.duration_s) == (True, [0, 2], 1 + 20)


# Which is the best, and what a round sees.

PASSED_THEN_SCORE = '["${round.result[0]}", "${round.result[1]}"]'


@pytest.mark.parametrize(
    ("rule", "given", "best"),
    [
        ("", [3, 9, 1], 3),
        ('keep: {max: "${round.result}"}', [3, 9, 1], 2),
        ('keep: {min: "${round.result}"}', [3, 9, 1], 3),
        ('keep: {max: "${round.result}"}', [-3, -9, -1.5], 3),
        ('keep: {max: "${round.result}"}', [5, 5, 5], 1),
        ('keep: {max: "${round.result}"}', [0, 0.0, -1], 1),
        ('keep: {min: "${round.result}"}', ["b", "a", "c"], 2),
        ('keep: {max: "${round.result}"}', [False, True, True], 2),
        ('keep: {min: "${round.result}"}', [True, False, False], 2),
        ('keep: {max: "${round.result}"}', [None, -1, None], 2),
        ('keep: {min: "${round.result}"}', [None, 3, 2], 3),
        ('keep: {max: "${round.result}"}', [None, None, None], 1),
        (f"keep: {{max: {PASSED_THEN_SCORE}}}", [[False, 9], [True, 1], [True, 2]], 3),
        (f"keep: {{max: {PASSED_THEN_SCORE}}}", [[True, 5], [False, 9], [True, 5]], 1),
        (f"keep: {{min: {PASSED_THEN_SCORE}}}", [[None, 1], [True, None], [True, 7]], 3),
        (f"keep: {{max: {PASSED_THEN_SCORE}}}", [[True, None], [True, 0], [None, 9]], 2),
    ],
)
def test_keep_says_which_round_is_the_best(flow, rounds, rule, given, best):
    output = succeeded(flow.timed(loop(f"max: 3, {rule}"), {"given": given}))
    assert (output["best_round"], output["best"]) == (best, output["rounds"][best - 1])


@pytest.mark.parametrize("given", [[1, "x"], [[1], [2]], ["1", True], [{}, None]])
def test_values_that_can_not_be_compared_are_a_permanent_failure(flow, rounds, given):
    result = flow.timed(loop('max: 2, keep: {max: "${round.result}"}'), {"given": given})
    assert (result.status, result.error.kind) == ("failed", "permanent")


def test_the_history_holds_the_finished_rounds_oldest_first(flow, rounds):
    succeeded(flow.timed(loop("max: 3", ', past: "${past}"')))
    first, second = ({"result": value, "stdout": "", "stderr": ""} for value in "ab")
    assert [call["past"] for call in rounds] == [[], [first], [first, second]]


def test_the_history_may_have_another_name(flow, rounds):
    succeeded(flow.timed(loop("max: 2, history: tries", ', past: "${tries}"')))
    assert [len(call["past"]) for call in rounds] == [0, 1]


def test_the_history_that_a_round_changes_is_its_own(flow):
    seen = []

    @flow.act
    async def spoil(past):
        seen.append(len(past))
        for each in past:
            each["result"].append("spoilt")
        past.clear()
        return []

    output = succeeded(
        flow.timed(
            'nodes: [{id: again, type: python, params: {function: "acts:spoil", inputs: {past: "${past}"}}, loop: {max: 3}}]'
        )
    )
    assert (seen, results(output)) == ([0, 1, 2], [[], [], []])


def test_the_history_that_a_round_gives_on_is_that_of_its_time(flow):
    output = flow.output(
        """
        nodes:
          - id: again
            type: workflow
            params:
              inputs: {r: "${__round__}", p: "${past}"}
              workflow:
                inputs: {r: {required: true}, p: {required: true}}
                nodes: [{id: v, type: value}]
                outputs: {n: "${r}", seen: "${p}"}
            loop: {max: 3}
        """
    )
    first = {"n": 1, "seen": []}
    second = {"n": 2, "seen": [first]}
    assert output["rounds"] == [first, second, {"n": 3, "seen": [first, second]}]


def test_a_round_reads_the_last_one(flow):
    output = flow.output(
        """
        nodes:
          - id: count
            type: code
            params: {inputs: {last: "${past[-1].result ?? 0}"}, code: "result = last + 1"}
            loop: {max: 3}
        """
    )
    assert results(output) == [1, 2, 3]


# Nested, and beside a batch.

DEBATE = """
    inputs: {problem: {required: true}, max_rounds: {default: 5}}
    nodes:
      - id: debate
        type: workflow
        params:
          inputs: {problem: "${problem}", past: "${past}"}
          workflow:
            inputs: {problem: {type: string, required: true}, past: {type: array, default: []}}
            nodes:
              - {id: solve, type: python, params: {function: "acts:solve", inputs: {problem: "${problem}", past: "${past}"}}}
              - {id: verify, type: python, params: {function: "acts:verify", inputs: {solution: "${solve.result}"}}}
            outputs:
              solution: "${solve.result}"
              critique: "${verify.result.critique}"
              passed: "${verify.result.passed}"
              score: "${verify.result.confidence}"
        loop: {max: "${max_rounds}", until: {passed: "${round.passed}"}, repeats: {circular: "${round.critique}"},
            keep: {max: "${round.score}"}, timeout: 120, on_error: keep}
    outputs: {best: "${debate.best.solution}", stop: "${debate.stop}", n: "${debate.round_count}", at: "${debate.best_round}"}
"""


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([("a", False, 1), ("b", True, 5)], {"best": 2, "stop": "passed", "n": 2, "at": 2}),
        ([("wrong sign", False, 7), ("wrong  sign", False, 5)], {"best": 1, "stop": "circular", "n": 2, "at": 1}),
        ([(str(n) * 5, False, -n) for n in range(9)], {"best": 1, "stop": "max_rounds", "n": 5, "at": 1}),
        ([("a", False, 1), None], {"best": 1, "stop": "error", "n": 1, "at": 1}),
        ([("a", False, 1), ("bbb", False, 2), "slow"], {"best": 2, "stop": "deadline", "n": 2, "at": 2}),
    ],
)
def test_the_solver_verifier_loop_of_the_language_stops_for_every_reason(flow, verdicts, expected):
    @flow.act
    async def solve(problem, past):
        return len(past) + 1

    @flow.act
    async def verify(solution):
        verdict = verdicts[solution - 1]
        if verdict is None:
            raise gm.Permanent("no verdict")
        if verdict == "slow":
            await asyncio.sleep(500)
        return dict(zip(("critique", "passed", "confidence"), verdict, strict=True))

    assert succeeded(flow.timed(DEBATE, {"problem": "p"})) == expected


def test_nested_loops_have_each_their_own_rounds_and_history(flow):
    calls = []

    @flow.act
    async def go(outer, inner, past, before):
        calls.append((outer, inner, len(past), before))
        return outer * 10 + inner

    output = succeeded(
        flow.timed(
            """
            nodes:
              - id: outer
                type: workflow
                params:
                  inputs: {o: "${__round__}", before: "${past}"}
                  workflow:
                    inputs: {o: {required: true}, before: {required: true}}
                    nodes:
                      - id: inner
                        type: python
                        params: {function: "acts:go", inputs: {outer: "${o}", inner: "${__round__}", past: "${past}", before: "${before}"}}
                        loop: {max: 2, history: past}
                    outputs: {last: "${inner.best.result}", n: "${inner.round_count}"}
                loop: {max: 2}
            """
        )
    )
    assert output["rounds"] == [{"last": 12, "n": 2}, {"last": 22, "n": 2}]
    assert calls == [(1, 1, 0, []), (1, 2, 1, []), (2, 1, 0, [{"last": 12, "n": 2}]), (2, 2, 1, [{"last": 12, "n": 2}])]


INNER = """
    nodes:
      - id: outer
        type: workflow
        params:
          workflow:
            nodes:
              - id: inner
                type: python
                params: {function: "acts:go", inputs: {given: [1, 2, 3], n: "${__round__}", seconds: 2}}
                loop: {max: 3, timeout: %s}
        loop: {%s}
"""


def test_the_deadline_of_an_outer_loop_ends_an_inner_one(flow, rounds):
    result = flow.timed(INNER % (100, "max: 3, timeout: 10"))
    output = succeeded(result)
    assert (output["stop"], output["round_count"], output["rounds"][0]["stop"], result.duration_s) == (
        "deadline",
        1,
        "max_rounds",
        10,
    )


def test_the_deadline_of_an_inner_loop_is_a_normal_end_of_the_outer_round(flow, rounds):
    output = succeeded(flow.timed(INNER % (5, "max: 2")))
    assert (output["stop"], [each["stop"] for each in output["rounds"]]) == ("max_rounds", ["deadline", "deadline"])


BOTH = """
    inputs: {items: {required: true}}
    nodes:
      - id: each
        type: python
        params: {function: "acts:step", inputs: {item: "${item}", n: "${__round__}", at: "${__index__}", past: "${past}"}}
        batch: {items: "${items}", %s}
        loop: {max: "${item.max}", until: {done: "${round.result.done}"}, keep: {max: "${round.result.score}"}%s}
"""


@pytest.fixture
def step(flow):
    calls = []

    @flow.act
    async def step(item, n, at, past):
        calls.append((at, n, len(past), now()))
        await asyncio.sleep(item.get("s", 0))
        if n == item.get("fails"):
            raise gm.Permanent(f"{at} fails")
        return {"done": n == item.get("done"), "score": -n if item.get("down") else n}

    return calls


def test_with_a_batch_and_a_loop_on_one_node_each_item_loops(flow, step):
    items = [{"max": 2}, {"max": 5, "done": 3}, {"max": 3, "down": True}]
    output = succeeded(flow.timed(BOTH % ("", ""), {"items": items}))
    assert [
        (each["stop"], each["round_count"], each["best_round"], each["original_index"]) for each in output["results"]
    ] == [
        ("max_rounds", 2, 2, 0),
        ("done", 3, 3, 1),
        ("max_rounds", 3, 1, 2),
    ]
    assert [call[:3] for call in step] == [
        (0, 1, 0),
        (0, 2, 1),
        (1, 1, 0),
        (1, 2, 1),
        (1, 3, 2),
        (2, 1, 0),
        (2, 2, 1),
        (2, 3, 2),
    ]


def test_items_loop_side_by_side_each_with_its_own_time(flow, step):
    items = [{"max": 9, "s": 4}, {"max": 9, "s": 6}, {"max": 1, "s": 1}]
    result = flow.timed(BOTH % ("parallel: true", ", timeout: 10"), {"items": items})
    output = succeeded(result)
    assert [(each["stop"], each["round_count"]) for each in output["results"]] == [
        ("deadline", 2),
        ("deadline", 1),
        ("max_rounds", 1),
    ]
    assert result.duration_s == 10


def test_an_item_whose_loop_fails_is_a_failed_item(flow, step):
    items = [{"max": 3}, {"max": 3, "fails": 2}]
    output = succeeded(flow.timed(BOTH % ("error_handling: continue", ""), {"items": items}))
    assert [outcome["status"] for outcome in output["outcomes"]] == ["succeeded", "failed"]
    output = succeeded(flow.timed(BOTH % ("error_handling: continue", ", on_error: keep"), {"items": items}))
    assert [each["stop"] for each in output["results"]] == ["max_rounds", "error"]


def test_a_loop_around_a_batch_runs_the_whole_batch_in_each_round(flow, rounds):
    output = succeeded(
        flow.timed(
            """
            nodes:
              - id: outer
                type: workflow
                params:
                  inputs: {r: "${__round__}"}
                  workflow:
                    inputs: {r: {required: true}}
                    nodes: [{id: each, type: python, params: {function: "acts:go", inputs: {given: [1, 2], n: "${item}"}},
                        batch: {items: [1, 2], parallel: true}}]
                    outputs: {n: "${each.success_count}"}
                loop: {max: 3}
            """
        )
    )
    assert output["rounds"] == [{"n": 2}] * 3
    assert len(rounds) == 6


def test_a_thousand_rounds_are_fine(flow):
    assert flow.output("nodes: [{id: again, type: value, params: {n: '${__round__}'}, loop: {max: 1000}}]")["best"] == {
        "n": 1000
    }
