"""The workflow language: usage and cost of every item, round, attempt and child are added up, none lost."""

import asyncio

import pytest

import graphmill as gm
from support.driving import jobs_of, virtual
from support.flows import PROMPT, succeeded


def used(result):
    """Give requests and cost; each request takes two tokens in and gives one out."""
    requests = result.usage["requests"]
    assert result.usage["input_tokens"] == 2 * requests
    return requests, result.cost_usd


def one(more="", **inputs):
    given = ", ".join(f"{key}: {value}" for key, value in inputs.items())
    return f"nodes: [{{id: m, type: metered, params: {{{given}}}{more}}}]"


@pytest.mark.usefixtures("metered")
class TestAddedUp:
    """Within one process."""

    def test_a_step_s_usage_is_its_job_s(self, flow):
        result = flow.timed(one())
        assert (used(result), result.usage["output_tokens"]) == ((1, 0.5), 1)

    def test_what_uses_nothing_has_no_usage(self, flow):
        result = flow.timed("nodes: [{id: v, type: value}]")
        assert (result.usage, result.cost_usd) == (None, None)

    def test_failed_attempts_count(self, flow):
        result = flow.timed(one(fails=2))
        assert (succeeded(result)["attempt"], used(result)) == (3, (3, 1.5))

    def test_a_step_that_fails_for_good_counts(self, flow):
        result = flow.timed(one(fails=9))
        assert (result.status, used(result)) == ("failed", (3, 1.5))

    def test_an_attempt_that_is_timed_out_counts_what_it_has_told(self, flow):
        result = flow.timed(one(", timeout: 5, retry: {attempts: 2}", seconds=50))
        assert (result.status, result.usage["requests"], result.usage["output_tokens"], result.cost_usd) == (
            "timed_out",
            2,
            0,
            0,
        )

    def test_nodes_add_up(self, flow):
        assert used(flow.timed("nodes: [{id: a, type: metered}, {id: b, type: metered, params: {cost: 2}}]")) == (
            2,
            2.5,
        )

    def test_branches_side_by_side_add_up(self, flow):
        result = flow.timed(
            "{nodes: [{id: a, type: metered}, {id: b, type: metered}, {id: c, type: metered}], edges: [{from: a, to: c}, {from: b, to: c}]}"
        )
        assert used(result) == (3, 1.5)

    @pytest.mark.parametrize("parallel", ["true", "false"])
    def test_items_add_up(self, flow, parallel):
        assert used(
            flow.timed(one(f", batch: {{items: [1, 2, 3], parallel: {parallel}}}", n="'${item}'", cost="'${item}'"))
        ) == (3, 6)

    def test_failed_items_add_up(self, flow):
        result = flow.timed(one(", batch: {items: [0, 9], error_handling: continue}", fails="'${item}'"))
        assert (result.status, used(result)) == ("succeeded", (4, 2))

    def test_items_that_fail_fast_cancels_count_what_they_have_told(self, flow):
        text = one(
            ", batch: {items: [{f: 9, s: 1}, {f: 0, s: 50}], parallel: true, max_retries: 1}",
            fails="'${item.f}'",
            seconds="'${item.s}'",
        )
        result = flow.timed(text)
        assert (result.status, result.usage["requests"], result.cost_usd) == ("failed", 2, 0.5)

    def test_rounds_add_up(self, flow):
        assert used(flow.timed(one(", loop: {max: 4}"))) == (4, 2)

    def test_a_round_that_the_deadline_ends_counts(self, flow):
        result = flow.timed(one(", loop: {max: 9, timeout: 10}", seconds=4))
        assert (succeeded(result)["stop"], result.usage["requests"], result.cost_usd) == ("deadline", 3, 1)

    def test_a_round_whose_error_is_kept_counts(self, flow):
        table = "'${table[${__round__}]}'"
        text = f"{{inputs: {{table: {{default: [0, 0, 9]}}}}, {one(', loop: {max: 9, on_error: keep}', fails=table)}}}"
        result = flow.timed(text)
        assert (succeeded(result)["stop"], used(result)) == ("error", (4, 2))

    def test_a_handled_failure_counts(self, flow):
        result = flow.timed(
            """
            nodes: [{id: m, type: metered, params: {fails: 9}}, {id: handle, type: metered}]
            edges: [{from: m, to: handle, action: error}]
            """
        )
        assert (result.status, used(result)) == ("succeeded", (4, 2))

    def test_children_of_items_of_children_add_up(self, flow):
        result = flow.timed(
            """
            nodes:
              - id: outer
                type: workflow
                params:
                  workflow:
                    nodes:
                      - {id: a, type: metered}
                      - {id: b, type: metered, params: {fails: "${item}"}, batch: {items: [0, 1], parallel: true}}
                      - {id: c, type: metered, loop: {max: 2}}
                batch: {items: [1, 2, 3], parallel: true}
            """
        )
        assert used(result) == (18, 9)

    def test_an_unknown_cost_is_counted_beside_the_known_sum(self, flow):
        result = flow.timed(one(", batch: {items: [1, null]}", cost="'${item}'"))
        assert (result.usage["requests"], result.cost_usd, result.unpriced) == (2, 1, 1)

    def test_budget_usd_stops_a_loop_that_has_cost_so_much(self, flow):
        output = succeeded(flow.timed(one(", loop: {max: 9, budget_usd: 1.4}")))
        assert (output["stop"], output["round_count"]) == ("budget", 3)

    def test_budget_usd_is_each_loop_s_own(self, flow):
        output = succeeded(flow.timed(one(", batch: {items: [1, 2]}, loop: {max: 9, budget_usd: 1}")))
        assert [(each["stop"], each["round_count"]) for each in output["results"]] == [("budget", 2), ("budget", 2)]

    def test_budget_usd_counts_failed_attempts_and_all_below(self, flow):
        output = succeeded(
            flow.timed(
                """
                nodes:
                  - id: outer
                    type: workflow
                    params: {workflow: {nodes: [{id: m, type: metered, params: {fails: 1}, batch: {items: [1, 2]}}]}}
                    loop: {max: 9, budget_usd: 3}
                """
            )
        )
        assert (output["stop"], output["round_count"]) == ("budget", 2)

    def test_until_goes_before_the_budget(self, flow):
        assert (
            succeeded(flow.timed(one(", loop: {max: 9, budget_usd: 0.5, until: {done: '${round.n}'}}", n=1)))["stop"]
            == "done"
        )

    def test_jobs_do_not_add_up_with_one_another(self, flow):
        results = flow.timed_all(
            f"{{inputs: {{n: {{required: true}}}}, {one(cost='${n}').replace('${n}', chr(39) + '${n}' + chr(39))}}}",
            [{"n": 1}, {"n": 2}],
        )
        assert [used(result) for result in results] == [(1, 1), (1, 2)]

    def test_a_job_that_is_cancelled_keeps_what_it_has_used(self, flow):
        graph = flow.load("nodes: [{id: a, type: metered}, {id: b, type: metered, params: {seconds: 50}}]")
        (result,), _ = virtual(
            jobs_of(graph, [{}]), on_run=lambda run: asyncio.get_running_loop().call_later(5, run.cancel)
        )
        assert (result.status, result.usage["requests"]) == ("cancelled", 2)


WHOLE = """
    nodes:
      - {id: a, type: metered, params: {fails: 1}}
      - {id: b, type: metered, params: {n: "${item}", fails: "${item}"}, batch: {items: [0, 9], error_handling: continue}}
      - {id: c, type: metered, loop: {max: 2}}
      - {id: gate, type: python, params: {function: "acts:gate"}}
      - {id: d, type: workflow, params: {workflow: {nodes: [{id: m, type: metered}]}}}
"""


def test_what_was_used_before_a_stop_is_counted_once_after_it(flow, store, metered):
    runs = []

    @flow.act
    async def gate():
        if len(runs) == 1:
            runs[0].drain(0)
            await asyncio.Event().wait()

    graph = flow.load(WHOLE)
    for _ in range(2):
        report = gm.batch(graph, [{}], policy=PROMPT, run_id="r", journal=store, on_start=runs.append)
    (result,) = report.results()
    assert (result.status, used(result), len(metered.calls)) == ("succeeded", (9, 4.5), 9)
    metered.calls.clear()
    (again,) = gm.batch(graph, [{}], policy=PROMPT, run_id="r", journal=store).results()
    assert (used(again), metered.calls) == ((9, 4.5), [])


def test_what_failed_attempts_of_an_unfinished_step_used_before_a_stop_is_counted_after_it(flow, store, metered):
    def stop(event):
        if isinstance(event, gm.RetryScheduled):
            runs[0].drain(0)

    runs, graph = [], flow.load(one(fails=1))
    patient = gm.Policy(retry=gm.Retry(attempts=3, wait_s=1000, cap_s=1000))
    gm.batch(graph, [{}], policy=patient, run_id="r", journal=store, on_start=runs.append, observers=[stop])
    assert len(metered.calls) == 1
    (result,) = gm.batch(graph, [{}], policy=PROMPT, run_id="r", journal=store).results()
    assert (succeeded(result)["attempt"], used(result), len(metered.calls)) == (2, (2, 1.0), 2)


def test_the_budget_of_a_loop_counts_the_rounds_before_a_stop(flow, store, metered):
    runs = []

    @flow.act
    async def gate(n):
        if len(runs) == 1 and n == 2:
            runs[0].drain(0)
            await asyncio.Event().wait()

    graph = flow.load(
        """
        nodes:
          - id: again
            type: workflow
            params:
              inputs: {n: "${__round__}"}
              workflow:
                inputs: {n: {required: true}}
                nodes: [{id: m, type: metered}, {id: gate, type: python, params: {function: "acts:gate", inputs: {n: "${n}"}}}]
            loop: {max: 9, budget_usd: 1.5}
        """
    )
    for _ in range(2):
        report = gm.batch(graph, [{}], policy=PROMPT, run_id="r", journal=store, on_start=runs.append)
    (result,) = report.results()
    assert (result.output["stop"], result.output["round_count"], used(result)) == ("budget", 3, (3, 1.5))


def test_an_item_that_is_retried_has_used_what_both_generations_did(flow, store, metered):
    fails = [True]

    @flow.act
    async def gate():
        if fails.pop():
            raise gm.Permanent("not yet")

    graph = flow.load(
        'nodes: [{id: a, type: metered}, {id: gate, type: python, params: {function: "acts:gate"}}, {id: b, type: metered}]'
    )
    (first,) = gm.batch(graph, [{}], policy=PROMPT, run_id="r", journal=store).results()
    assert (first.status, used(first)) == ("failed", (1, 0.5))
    fails.append(False)
    (second,) = gm.retry("r", graph=graph, journal=store).results()
    assert (second.status, used(second), len(metered.calls)) == ("succeeded", (2, 1.0), 2)


def test_a_stranger_s_type_may_have_params_named_as_ours(flow, metered):
    del metered
    assert flow.output("nodes: [{id: c, type: compiler, params: {code: 'x = 1', isolation: process}}]")["size"] == 5


def test_a_type_is_told_the_folder_of_the_workflow(flow, metered):
    del metered
    assert flow.output("nodes: [{id: c, type: compiler, params: {code: x}}]")["root"] == str(flow.folder)


def test_a_type_is_told_the_folder_of_the_child_s_file_in_a_child(flow, metered):
    del metered
    (flow.folder / "sub").mkdir()
    (flow.folder / "sub" / "child.yaml").write_text(
        "nodes: [{id: c, type: compiler, params: {code: x}}]", encoding="utf-8"
    )
    assert flow.output("nodes: [{id: w, type: workflow, params: {workflow: sub/child.yaml}}]")["root"] == str(
        flow.folder / "sub"
    )
