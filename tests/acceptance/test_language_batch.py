"""The workflow language: the batch block, rule by rule."""

import asyncio
import json
from collections import Counter
from itertools import pairwise

import pytest

import graphmill as gm
from support.driving import Peak, jobs_of, virtual
from support.flows import STEADY, now, succeeded


@pytest.fixture
def work(flow):
    """``acts:work`` sleeps ``seconds``, then fails as often as ``fails`` says, each item by itself; notes what happens."""
    notes = Notes()

    @flow.act
    async def work(n, seconds=0, fails=0, kind="transient"):
        notes.calls.append((n, now()))
        key = json.dumps(n)
        notes.tries[key] += 1
        try:
            with notes.peak:
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            notes.cancelled.append(n)
            raise
        if notes.tries[key] <= fails:
            raise {"transient": gm.Transient, "permanent": gm.Permanent, "bug": ZeroDivisionError}[kind](f"{n} fails")
        notes.ended.append(n)
        return n

    return notes


class Notes:
    def __init__(self):
        self.calls, self.ended, self.cancelled = [], [], []
        self.tries = Counter()
        self.peak = Peak()

    @property
    def called(self):
        return [n for n, _ in self.calls]


def batch(rule, inputs="{n: '${item}'}", more=""):
    return f"""
        inputs: {{items: {{default: [1, 2, 3]}}, rows: {{default: []}}}}
        nodes:
          - {{id: each, type: python, params: {{function: "acts:work", inputs: {inputs}}}, batch: {{items: "${{items}}", {rule}}} {more}}}
    """


FAILING = "{n: '${item.n}', seconds: '${item.s ?? 0}', fails: '${item.f ?? 0}', kind: '${item.k ?? \"transient\"}'}"


def values(output):
    return [result["result"] for result in output["results"]]


def statuses(output):
    return [outcome["status"] for outcome in output["outcomes"]]


# Items.


def test_in_an_item_s_scope_are_the_item_and_its_index_from_0(flow):
    output = flow.output(
        "nodes: [{id: each, type: value, params: {it: '${item}', at: '${__index__}'}, batch: {items: [a, b]}}]"
    )
    assert [(result["it"], result["at"]) for result in output["results"]] == [("a", 0), ("b", 1)]


def test_an_alias_is_a_root_beside_the_namespaced_nodes(flow):
    output = flow.output(
        """
        inputs: {tone: {default: warm}}
        nodes:
          - {id: fetch, type: value, params: {user: node, rows: [{name: Ann}, {name: Bob}]}}
          - id: each
            type: value
            params: {mixed: "${user.name} ${fetch.user} ${tone} ${__index__}", user: "${user}"}
            batch: {items: "${fetch.rows}", as: user}
          - {id: after, type: value, params: {first: "${each.results[0].user.name}", node: "${fetch.user}"}}
        outputs: {mixed: ["${each.results[0].mixed}", "${each.results[1].mixed}"], after: "${after}"}
        """
    )
    assert output == {"mixed": ["Ann node warm 0", "Bob node warm 1"], "after": {"first": "Ann", "node": "node"}}


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_falsy_items_are_items(flow, work, parallel):
    items = [0, "", False, None, [], {}]
    output = succeeded(flow.timed(batch(f"parallel: {parallel}"), {"items": items}))
    assert values(output) == items
    assert [(result["item"], type(result["item"])) for result in output["results"]] == [
        (item, type(item)) for item in items
    ]
    assert (output["count"], output["success_count"]) == (6, 6)


@pytest.mark.parametrize("parallel", ["true", "false"])
@pytest.mark.parametrize("items", [[], "[]", "[ ]\n", ()])
def test_empty_items_give_an_empty_result_and_succeed(flow, work, items, parallel):
    result = flow.timed(batch(f"parallel: {parallel}, error_handling: continue"), {"items": items})
    output = succeeded(result)
    assert (output["results"], output["errors"], output["outcomes"]) == ([], [], [])
    assert [output[name] for name in ("count", "success_count", "error_count", "cancelled_count")] == [0, 0, 0, 0]
    assert "degraded" not in result.metadata
    assert output["batch_metadata"]["timing"]["p95"] == 0


@pytest.mark.parametrize("text", ["[1, 2]", "[1, 2]\n", "\n [1, 2] \n\n"])
def test_items_may_be_an_array_as_json_text(flow, work, text):
    assert values(succeeded(flow.timed(batch(""), {"items": text}))) == [1, 2]


def test_items_may_be_json_text_that_a_node_wrote(flow, work):
    output = flow.output(
        """
        nodes:
          - {id: list, type: code, params: {code: "result = '[1, 2]\\\\n'"}}
          - {id: each, type: python, params: {function: "acts:work", inputs: {n: "${item}"}}, batch: {items: "${list.result}"}}
        """
    )
    assert values(output) == [1, 2]


@pytest.mark.parametrize("items", [None, 5, True, "words", '{"a": 1}', '"[1]"', "[1, 2", "", {"a": 1}, b"[1]"])
@pytest.mark.parametrize("handling", ["continue", "fail_fast"])
@pytest.mark.parametrize("parallel", ["true", "false"])
def test_anything_else_is_a_permanent_failure_of_the_node_and_no_item_starts(flow, work, items, handling, parallel):
    result = flow.timed(batch(f"error_handling: {handling}, parallel: {parallel}"), {"items": items})
    assert (result.status, result.error.kind, work.calls) == ("failed", "permanent", [])
    assert "must be a list" in result.error.message


def test_items_may_be_an_inline_array_with_templates_inside(flow):
    output = flow.output(
        """
        inputs: {a: {default: 5}}
        nodes: [{id: each, type: value, params: {x: "${item}"}, batch: {items: ["${a}", "<${a}>", {deep: ["${a}"]}, null]}}]
        """
    )
    assert [result["x"] for result in output["results"]] == [5, "<5>", {"deep": [5]}, None]


REPEATED = """
    inputs: {n: {default: 3}}
    nodes:
      - {id: each, type: python, params: {function: "acts:work", inputs: {n: "${sample} ${__index__}"}}, batch: {times: %s, as: sample}}
    outputs: {items: "${each.results}", count: "${each.count}"}
"""


@pytest.mark.parametrize("times", ["3", '"${n}"'])
def test_times_repeats_a_node_with_its_number_as_the_item(flow, work, times):
    output = flow.output(REPEATED % times)
    assert (output["count"], work.called) == (3, ["0 0", "1 1", "2 2"])
    assert [(each["item"], each["original_index"]) for each in output["items"]] == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("n", [-1, 1.0, True, "3", None, [1], 10**7])
def test_times_that_are_no_count_are_a_permanent_failure(flow, work, n):
    result = flow.result(REPEATED % '"${n}"', {"n": n})
    assert (result.status, result.error.kind, work.called) == ("failed", "permanent", [])
    assert "times must be an integer from 0" in result.error.message


class Streamed:
    """A source handle: gives items one by one, and notes how many it has given."""

    def __init__(self, count, fails_at=None):
        self.count, self.fails_at, self.given = count, fails_at, 0

    def __iter__(self):
        for number in range(self.count):
            if number == self.fails_at:
                raise OSError("the source is gone")
            self.given += 1
            yield number


@pytest.mark.parametrize(("rule", "ahead"), [("parallel: true, max_concurrent: 4", 4), ("", 1)])
def test_a_source_handle_is_streamed(flow, work, rule, ahead):
    source, most = Streamed(50), []

    @flow.act
    async def look(n):
        most.append(source.given - n)
        await asyncio.sleep(1)
        return n

    output = succeeded(flow.timed(batch(rule).replace("acts:work", "acts:look"), {"items": source}))
    assert values(output) == list(range(50))
    assert max(most) <= ahead


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_a_source_handle_that_fails_fails_its_job_and_no_other(flow, work, parallel):
    broken, whole = flow.timed_all(
        batch(f"parallel: {parallel}"), [{"items": Streamed(5, fails_at=2)}, {"items": [1, 2]}]
    )
    assert (broken.status, "the source is gone" in broken.error.message) == ("failed", True)
    assert values(succeeded(whole)) == [1, 2]


# Output.


def test_the_output_of_the_node_is_as_the_language_says(flow, work):
    items = [{"n": "a"}, {"n": "b", "f": 9}, {"n": "c", "f": 1}]
    output = succeeded(
        flow.timed(
            batch(
                "error_handling: continue, max_retries: 2, retry_wait: 3, parallel: true, max_concurrent: 2", FAILING
            ),
            {"items": items},
        )
    )
    assert set(output) == {
        "results",
        "errors",
        "outcomes",
        "count",
        "success_count",
        "error_count",
        "cancelled_count",
        "batch_metadata",
    }
    first = {"result": "a", "stdout": "", "stderr": "", "item": items[0], "original_index": 0}
    last = {"result": "c", "stdout": "", "stderr": "", "item": items[2], "original_index": 2}
    assert output["results"] == [first, last]
    error = {"index": 1, "item": items[1], "error": "b fails", "kind": "transient", "attempts": 2}
    assert output["errors"] == [error]
    assert output["outcomes"] == [
        {"status": "succeeded", "result": first},
        {"status": "failed", "error": error},
        {"status": "succeeded", "result": last},
    ]
    assert [output[name] for name in ("count", "success_count", "error_count", "cancelled_count")] == [3, 2, 1, 0]
    metadata = output["batch_metadata"]
    assert set(metadata) == {"parallel", "max_concurrent", "max_retries", "retry_wait", "execution_mode", "timing"}
    assert [
        metadata[name] for name in ("parallel", "max_concurrent", "max_retries", "retry_wait", "execution_mode")
    ] == [
        True,
        2,
        2,
        3,
        "parallel",
    ]


def test_timing_tells_wall_total_average_minimum_maximum_and_p95(flow, work):
    items = [{"n": n, "s": n} for n in range(1, 5)]
    timing = succeeded(flow.timed(batch("parallel: true", FAILING), {"items": items}))["batch_metadata"]["timing"]
    assert timing == pytest.approx({"wall": 4, "total": 10, "average": 2.5, "minimum": 1, "maximum": 4, "p95": 4})
    output = succeeded(flow.timed(batch("", FAILING), {"items": items}))
    assert output["batch_metadata"]["timing"]["wall"] == pytest.approx(10)
    assert output["batch_metadata"]["execution_mode"] == "sequential"


def test_p95_is_the_time_that_95_of_100_items_keep(flow, work):
    items = [{"n": n, "s": n} for n in range(1, 101)]
    timing = succeeded(
        flow.timed(batch("parallel: true, max_concurrent: 100", FAILING), {"items": items}, concurrency=100)
    )["batch_metadata"]["timing"]
    assert timing["p95"] == pytest.approx(95)


def test_results_are_in_input_order_whatever_ends_first(flow, work):
    items = [{"n": n, "s": 10 - n} for n in range(10)]
    output = succeeded(flow.timed(batch("parallel: true", FAILING), {"items": items}))
    assert values(output) == list(range(10))
    assert work.ended == list(range(9, -1, -1))
    assert [result["original_index"] for result in output["results"]] == list(range(10))


def test_unordered_results_are_in_the_order_of_their_ends_and_outcomes_stay_aligned(flow, work):
    items = [{"n": n, "s": 3 - n} for n in range(3)]
    output = succeeded(flow.timed(batch("parallel: true, ordered: false", FAILING), {"items": items}))
    assert values(output) == [2, 1, 0]
    assert [outcome["result"]["result"] for outcome in output["outcomes"]] == [0, 1, 2]


def test_errors_are_always_a_list_in_index_order(flow, work):
    items = [{"n": n, "s": 10 - n, "f": 9, "k": "permanent"} for n in range(4)] + [{"n": 4}]
    output = succeeded(flow.timed(batch("parallel: true, error_handling: continue", FAILING), {"items": items}))
    assert [(error["index"], error["error"]) for error in output["errors"]] == [(n, f"{n} fails") for n in range(4)]
    assert statuses(output) == ["failed"] * 4 + ["succeeded"]


def test_an_item_that_times_out_has_that_status(flow, work):
    output = succeeded(
        flow.timed(batch("timeout: 5, error_handling: continue", FAILING), {"items": [{"n": 0, "s": 50}, {"n": 1}]})
    )
    assert statuses(output) == ["timed_out", "succeeded"]
    assert (output["errors"][0]["kind"], output["errors"][0]["attempts"]) == ("timeout", 3)


# Order and concurrency.


def test_sequential_by_default(flow, work):
    succeeded(flow.timed(batch("", FAILING), {"items": [{"n": n, "s": 1} for n in range(4)]}))
    assert (work.peak.highest, [at for _, at in work.calls]) == (1, [0, 1, 2, 3])


def test_at_most_10_items_at_once_unless_said_otherwise(flow, work):
    items = [{"n": n, "s": 1} for n in range(30)]
    succeeded(flow.timed(batch("parallel: true", FAILING), {"items": items}, concurrency=100))
    assert work.peak.highest == 10


def test_max_concurrent_bounds_each_execution_of_the_node(flow, work):
    items = [{"n": n, "s": 1} for n in range(9)]
    results = flow.timed_all(
        batch("parallel: true, max_concurrent: 3", FAILING), [{"items": items}, {"items": items}], concurrency=100
    )
    assert [result.duration_s for result in results] == [3, 3]
    assert work.peak.highest == 6


def test_max_concurrent_is_never_more_than_the_run_s_concurrency(flow, work):
    items = [{"n": n, "s": 1} for n in range(20)]
    succeeded(flow.timed(batch("parallel: true, max_concurrent: 20", FAILING), {"items": items}, concurrency=4))
    assert work.peak.highest == 4


def test_an_item_that_waits_for_its_retry_still_counts_among_max_concurrent(flow, work):
    items = [{"n": 0, "f": 1}, {"n": 1}, {"n": 2}]
    succeeded(
        flow.timed(batch("parallel: true, max_concurrent: 1, retry_wait: 5", FAILING), {"items": items}, retry=STEADY)
    )
    assert work.called == [0, 0, 1, 2]


NESTED = """
    inputs: {rows: {required: true}, seconds: {default: 1}}
    nodes:
      - id: outer
        type: workflow
        params:
          inputs: {cells: "${row}", seconds: "${seconds}"}
          workflow:
            inputs: {cells: {required: true}, seconds: {default: 1}}
            nodes:
              - id: middle
                type: workflow
                params:
                  inputs: {cell: "${cell}", seconds: "${seconds}"}
                  workflow:
                    inputs: {cell: {required: true}, seconds: {default: 1}}
                    nodes:
                      - id: inner
                        type: python
                        params: {function: "acts:work", inputs: {n: "${x}", seconds: "${seconds}"}}
                        batch: {items: "${cell}", as: x, parallel: true, max_concurrent: 100}
                batch: {items: "${cells}", as: cell, parallel: true, max_concurrent: 100}
        batch: {items: "${rows}", as: row, parallel: true, max_concurrent: 100}
"""


@pytest.mark.parametrize("concurrency", [1, 2, 7, 64])
def test_at_any_depth_there_are_at_most_concurrency_attempts_at_once(flow, work, concurrency):
    rows = [[[f"{a}{b}{c}" for c in range(4)] for b in range(4)] for a in range(4)]
    result = flow.timed(NESTED, {"rows": rows}, concurrency=concurrency)
    assert work.peak.highest == concurrency
    assert result.duration_s == -(-64 // concurrency)
    inner = [
        cell["result"]
        for row in succeeded(result)["results"]
        for middle in row["results"]
        for cell in middle["results"]
    ]
    assert inner == [cell for row in rows for middle in row for cell in middle]


def test_nested_results_keep_the_items_of_each_level(flow, work):
    output = succeeded(flow.timed(NESTED, {"rows": [[["a"]], []]}))
    assert [(result["item"], result["original_index"], result["count"]) for result in output["results"]] == [
        ([["a"]], 0, 1),
        ([], 1, 0),
    ]
    assert output["results"][0]["results"][0]["item"] == ["a"]


def attempts_of_nested(flow, work, outer="", inner="", node="", policy=4):
    items = f"""
        nodes:
          - id: outer
            type: workflow
            params:
              workflow:
                nodes:
                  - {{id: inner, type: python, params: {{function: "acts:work", inputs: {{n: 1, fails: 99}}}},
                      batch: {{items: [1], error_handling: continue{inner}}}}}
            batch: {{items: [1], error_handling: continue{outer}}}
            {node}
    """
    result = flow.timed(items, retry=gm.Retry(attempts=policy, wait_s=0, cap_s=0))
    assert result.status == "failed"
    return len(work.calls)


def test_nested_batches_have_one_attempt_budget(flow, work):
    assert attempts_of_nested(flow, work, outer=", max_retries: 3", inner=", max_retries: 2") == 2


def test_the_outer_batch_s_attempts_are_the_default_of_the_inner_steps(flow, work):
    assert attempts_of_nested(flow, work, outer=", max_retries: 3") == 3


def test_the_node_s_attempts_are_the_default_of_its_batch_and_its_child(flow, work):
    assert attempts_of_nested(flow, work, node="retry: {attempts: 2}") == 2


def test_the_policy_s_attempts_are_the_default_of_all(flow, work):
    assert attempts_of_nested(flow, work) == 4


# Failures.


def test_retry_counters_are_per_item(flow, work):
    items = [{"n": n, "f": n} for n in range(4)]
    output = succeeded(
        flow.timed(batch("max_retries: 3, error_handling: continue, parallel: true", FAILING), {"items": items})
    )
    assert [work.tries[str(n)] for n in range(4)] == [1, 2, 3, 3]
    assert (values(output), [(error["index"], error["attempts"]) for error in output["errors"]]) == (
        [0, 1, 2],
        [(3, 3)],
    )


def test_max_retries_are_total_attempts_and_go_before_the_node_s_and_the_policy_s(flow, work):
    flow.timed(batch("max_retries: 2", FAILING, ", retry: {attempts: 5}"), {"items": [{"n": 1, "f": 99}]})
    assert len(work.calls) == 2


def test_max_retries_1_is_no_retry(flow, work):
    flow.timed(batch("max_retries: 1", FAILING), {"items": [{"n": 1, "f": 99}]})
    assert len(work.calls) == 1


def test_the_wait_is_at_least_retry_wait_and_grows(flow, work):
    flow.timed(batch("max_retries: 4, retry_wait: 10", FAILING), {"items": [{"n": 1, "f": 99}]}, retry=gm.Retry())
    times = [at for _, at in work.calls]
    waits = [after - before for before, after in pairwise(times)]
    assert all(wait >= 10 for wait in waits)
    assert waits[-1] > waits[0]


def test_the_wait_is_capped(flow, work):
    flow.timed(
        batch("max_retries: 8", FAILING, ", retry: {wait_s: 1, cap_s: 3, backoff: exponential}"),
        {"items": [{"n": 1, "f": 99}]},
        retry=gm.Retry(),
    )
    times = [at for _, at in work.calls]
    assert max(after - before for before, after in pairwise(times)) <= 3


def test_partial_writes_before_a_failed_attempt_are_not_seen_by_the_next(flow):
    seen = []

    @flow.act
    async def careless(row):
        seen.append(json.dumps(row))
        row["list"].append("spoilt")
        row["new"] = 1
        if len(seen) < 3:
            raise gm.Transient("half way")
        return row

    output = succeeded(
        flow.timed(batch("", "{row: '${item}'}").replace("acts:work", "acts:careless"), {"items": [{"list": []}]})
    )
    assert seen == ['{"list": []}'] * 3
    assert output["results"][0]["item"] == {"list": []}
    assert output["results"][0]["result"] == {"list": ["spoilt"], "new": 1}


@pytest.mark.parametrize("kind", ["transient", "bug"])
def test_a_failure_is_one_thing_whatever_its_source(flow, work, kind):
    items = [{"n": 0, "f": 9, "k": kind}, {"n": 1}]
    output = succeeded(flow.timed(batch("error_handling: continue", FAILING), {"items": items}))
    assert statuses(output) == ["failed", "succeeded"]
    assert "0 fails" in output["errors"][0]["error"]


def test_a_failed_end_of_an_item_s_child_is_a_failure_like_an_exception(flow):
    output = flow.output(
        """
        nodes:
          - id: each
            type: workflow
            params:
              inputs: {n: "${item}"}
              workflow:
                inputs: {n: {required: true}}
                nodes: [{id: stop, type: end, params: {on: "${n}", cases: {1: {status: failed, reason: it is one}}, default: succeeded}}]
            batch: {items: [0, 1], error_handling: continue}
        """
    )
    assert statuses(output) == ["succeeded", "failed"]
    assert "it is one" in output["errors"][0]["error"]


def test_template_failures_of_an_item_are_its_own_and_never_retried(flow, work):
    items = [{"n": 1}, {}, {"n": 3}]
    output = succeeded(
        flow.timed(
            batch("error_handling: continue, max_retries: 5, retry_wait: 7", "{n: '${item.n}'}"), {"items": items}
        )
    )
    assert statuses(output) == ["succeeded", "failed", "succeeded"]
    assert (output["errors"][0]["kind"], output["errors"][0]["attempts"], work.called) == ("permanent", 1, [1, 3])
    assert "${item.n}" in output["errors"][0]["error"]


def test_validation_failures_of_an_item_are_never_retried(flow, work):
    result = flow.timed(
        batch("error_handling: continue, max_retries: 5", "'${item}'"), {"items": [{"n": 1}, "no mapping", {"n": 2}]}
    )
    output = succeeded(result)
    assert [(error["index"], error["kind"], error["attempts"]) for error in output["errors"]] == [(1, "permanent", 1)]
    assert (result.duration_s, work.called) == (0, [1, 2])


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_fail_fast_is_the_default_and_fails_the_job_with_the_item_s_failure(flow, work, parallel):
    items = [{"n": 0}, {"n": 1, "f": 9, "k": "permanent"}, {"n": 2}]
    result = flow.timed(batch(f"parallel: {parallel}", FAILING), {"items": items})
    assert (result.status, result.error.kind) == ("failed", "permanent")
    assert "item 1" in result.error.message
    assert "1 fails" in result.error.message


FAILED_FAST = """
    inputs: {items: {required: true}}
    nodes:
      - id: each
        type: python
        params: {function: "acts:work", inputs: %s}
        batch: {items: "${items}", %s}
      - {id: told, type: value, params: {outcomes: "${each.outcomes}",
          counts: ["${each.count}", "${each.success_count}", "${each.error_count}", "${each.cancelled_count}"]}}
    edges: [{from: each, to: told, action: error}]
"""


def test_fail_fast_cancels_what_runs_and_what_has_not_started_is_cancelled(flow, work):
    items = [
        {"n": 0, "s": 100},
        {"n": 1, "s": 1},
        {"n": 2, "s": 5, "f": 9, "k": "permanent"},
        {"n": 3, "s": 100},
        {"n": 4},
        {"n": 5},
    ]
    result = flow.timed(FAILED_FAST % (FAILING, "parallel: true, max_concurrent: 3"), {"items": items})
    output = succeeded(result)
    assert result.duration_s == 5
    assert statuses(output) == ["cancelled", "succeeded", "failed", "cancelled", "cancelled", "cancelled"]
    assert output["counts"] == [6, 1, 1, 4]
    assert (sorted(work.cancelled), work.called) == ([0, 3], [0, 1, 2, 3])


def test_fail_fast_in_sequence_starts_nothing_more(flow, work):
    items = [{"n": 0}, {"n": 1, "f": 9, "k": "permanent"}, {"n": 2}, {"n": 3}]
    output = succeeded(flow.timed(FAILED_FAST % (FAILING, "parallel: false"), {"items": items}))
    assert statuses(output) == ["succeeded", "failed", "cancelled", "cancelled"]
    assert work.called == [0, 1]


def test_fail_fast_does_not_let_a_waiting_retry_begin(flow, work):
    items = [{"n": 0, "f": 9}, {"n": 1, "s": 1, "f": 9, "k": "permanent"}]
    succeeded(flow.timed(FAILED_FAST % (FAILING, "parallel: true, retry_wait: 30"), {"items": items}))
    assert work.called == [0, 1]


def test_all_items_failed_under_continue_is_a_failure(flow, work):
    result = flow.timed(
        batch("error_handling: continue, max_retries: 1", FAILING), {"items": [{"n": n, "f": 9} for n in range(3)]}
    )
    assert (result.status, result.error.kind) == ("failed", "transient")
    assert "3 of 3" in result.error.message
    assert "0 fails" in result.error.message


def test_some_items_failed_under_continue_is_a_success_flagged_degraded(flow, work):
    result = flow.timed(batch("error_handling: continue", FAILING), {"items": [{"n": 0, "f": 9}, {"n": 1}]})
    assert (result.status, dict(result.metadata)) == ("succeeded", {"degraded": True})


def test_no_item_failed_is_not_degraded(flow, work):
    result = flow.timed(batch("error_handling: continue", FAILING), {"items": [{"n": 0, "f": 2}, {"n": 1}]})
    assert (result.status, dict(result.metadata)) == ("succeeded", {})


def test_a_degraded_batch_inside_children_and_batches_flags_the_job(flow, work):
    result = flow.timed(
        """
        nodes:
          - id: outer
            type: workflow
            params:
              workflow:
                nodes:
                  - id: each
                    type: python
                    params: {function: "acts:work", inputs: {n: "${item}", fails: "${item}", kind: permanent}}
                    batch: {items: [0, 9], error_handling: continue}
            batch: {items: [1, 2], parallel: true}
          - {id: after, type: value}
        """
    )
    assert (result.status, dict(result.metadata)) == ("succeeded", {"degraded": True})


@pytest.mark.parametrize(("failures", "status"), [(2, "succeeded"), (3, "failed")])
@pytest.mark.parametrize("parallel", ["true", "false"])
def test_max_failures_as_a_count_is_how_many_failures_are_tolerated(flow, work, failures, status, parallel):
    items = [{"n": n, "f": 9 if n < failures else 0, "k": "permanent"} for n in range(8)]
    result = flow.timed(
        batch(f"error_handling: continue, max_failures: 2, parallel: {parallel}", FAILING), {"items": items}
    )
    assert result.status == status


def test_more_failures_than_max_failures_start_nothing_more(flow, work):
    items = [{"n": n, "f": 9, "k": "permanent"} for n in range(10)]
    output = succeeded(
        flow.timed(FAILED_FAST % (FAILING, "error_handling: continue, max_failures: 2"), {"items": items})
    )
    assert statuses(output) == ["failed"] * 3 + ["cancelled"] * 7
    assert (work.called, output["counts"]) == ([0, 1, 2], [10, 0, 3, 7])


@pytest.mark.parametrize(("failures", "status"), [(10, "succeeded"), (11, "failed")])
@pytest.mark.parametrize("is_first", [True, False])
def test_max_failures_as_a_share_is_of_all_items_wherever_they_stand(flow, work, failures, status, is_first):
    items = [
        {"n": n, "f": 9 if (n < failures if is_first else n >= 100 - failures) else 0, "k": "permanent"}
        for n in range(100)
    ]
    assert flow.timed(batch("error_handling: continue, max_failures: 0.1", FAILING), {"items": items}).status == status


@pytest.mark.parametrize(("failures", "status"), [(29, "succeeded"), (30, "failed")])
def test_max_failures_as_a_share_of_a_source_handle_is_judged_at_its_end(flow, work, failures, status):
    items = iter([{"n": n, "f": 9 if n >= 100 - failures else 0, "k": "permanent"} for n in range(100)])
    assert flow.timed(batch("error_handling: continue, max_failures: 0.29", FAILING), {"items": items}).status == status


def test_a_share_beyond_max_failures_starts_nothing_more(flow, work):
    items = [{"n": n, "f": 9, "k": "permanent"} for n in range(100)]
    flow.timed(batch("error_handling: continue, max_failures: 0.1", FAILING), {"items": items})
    assert work.called == list(range(11))


def test_results_by_position_are_refused_under_continue_with_the_aligned_form(flow):
    problem = flow.problem(
        """
        nodes:
          - {id: each, type: value, batch: {items: [1], error_handling: continue}}
          - {id: after, type: value, params: {x: "${each.results[0].item}", y: "${each.outcomes[0].status}", z: "${each.results}"}}
        """
    )
    assert "outcomes[N]" in problem


@pytest.mark.parametrize("index", ["-1", "${n}"])
def test_results_by_any_index_are_refused_under_continue(flow, index):
    assert "outcomes[N]" in flow.problem(
        f"""
        inputs: {{n: {{default: 0}}}}
        nodes: [{{id: each, type: value, batch: {{items: [1], error_handling: continue}}}}]
        outputs: {{x: "${{each.results[{index}]}}"}}
        """
    )


def test_results_by_position_are_fine_under_fail_fast(flow):
    assert flow.output(
        "{nodes: [{id: each, type: value, params: {x: '${item}'}, batch: {items: [7, 8]}}], outputs: {x: '${each.results[1].x}'}}"
    ) == {"x": 8}


# Children.


def test_a_compile_error_of_a_child_is_a_workflow_error_and_no_item_s(flow):
    (flow.folder / "child.yaml").write_text("nodes: [{id: v, type: value, params: {x: '${nobody}'}}]", encoding="utf-8")
    problem = flow.problem(
        "nodes: [{id: each, type: workflow, params: {workflow: child.yaml}, batch: {items: [1, 2], error_handling: continue}}]"
    )
    assert "child.yaml:1:" in problem
    assert "nobody" in problem


def test_a_child_is_compiled_once_before_the_first_item_starts(flow, work):
    child = flow.write(
        '{inputs: {n: {required: true}}, nodes: [{id: go, type: python, params: {function: "acts:work", inputs: {n: "${n}"}}}]}',
        "child.yaml",
    )

    graph = flow.load(
        "nodes: [{id: each, type: workflow, params: {workflow: child.yaml, inputs: {n: '${item}'}}, batch: {items: [1, 2]}}]"
    )
    child.write_text("nodes: broken", encoding="utf-8")
    (result,), _ = virtual(jobs_of(graph, [{}]))
    assert values(succeeded(result)) == [1, 2]


def test_items_of_a_child_do_not_see_one_another(flow):
    output = flow.output(
        """
        nodes:
          - id: each
            type: workflow
            params:
              inputs: {n: "${item}"}
              workflow:
                inputs: {n: {required: true}}
                nodes:
                  - {id: route, type: branch, params: {on: "${n}", cases: {0: write}, default: skip}}
                  - {id: written, type: value, params: {n: "${n}"}}
                  - {id: read, type: value, params: {found: '${written.n ?? "nothing"}'}}
                edges: [{from: route, to: written, action: write}, {from: route, to: read, action: skip}, {from: written, to: read}]
            batch: {items: [0, 1, 2]}
        """
    )
    assert [result["found"] for result in output["results"]] == [0, "nothing", "nothing"]


def test_a_batch_of_many_items_is_one_node_s(flow):
    output = flow.output(
        "{inputs: {n: {required: true}}, nodes: [{id: each, type: value, params: {x: '${item}'}, batch: {items: '${n}', parallel: true}}]}",
        {"n": list(range(3000))},
    )
    assert [result["x"] for result in output["results"]] == list(range(3000))


@pytest.mark.parametrize(
    "node",
    [
        "type: value, params: {item: 1, n: 2}",
        "type: value, params: {original_index: '${item}'}",
        "type: workflow, params: {workflow: {nodes: [{id: v, type: value, params: {n: 1}}], outputs: {item: '${v.n}'}}}",
    ],
)
def test_an_output_that_the_batch_would_replace_is_refused(flow, node):
    problem = flow.problem(f"nodes: [{{id: each, {node}, batch: {{items: [1, 2]}}}}]")
    assert "rename the node's output" in problem


def test_an_output_that_is_what_the_batch_puts_there_is_no_mistake(flow):
    text = "{nodes: [{id: each, type: value, params: {item: '${x}', original_index: '${__index__}'}, batch: {items: [7], as: x}}]}"
    assert flow.output(text)["results"] == [{"item": 7, "original_index": 0}]


@pytest.mark.parametrize("rule", ["parallel: true, max_concurrent: 1", "parallel: false"])
def test_the_progress_of_one_job_tells_how_far_the_batch_inside_is(flow, rule):
    runs, seen = [], []

    @flow.act
    async def go(value):
        series = runs[0].progress().series
        seen.append((series.path, series.done, series.total))
        return value

    node = "{id: score, type: python, params: {function: 'acts:go', inputs: {value: '${item}'}}, batch: {items: [1, 2, 3], RULE}}"
    graph = flow.load(f"nodes: [{node.replace('RULE', rule)}]")
    assert gm.run(graph, on_start=runs.append).is_success
    assert seen == [("score", 0, 3), ("score", 1, 3), ("score", 2, 3)]
    assert runs[0].progress().series is None
