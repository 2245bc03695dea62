"""The workflow language, recorded: what is finished is not done again."""

import asyncio
from contextlib import closing

import pytest

import graphmill as gm
from graphmill.core.json import item_key
from graphmill.journal.records import EVERYTHING
from support.flows import PROMPT
from support.recording import KILLED, Program
from support.remains import wait_until


class Stopper:
    """Drains the first run at once when a function is called with what it waits for; counts all calls."""

    def __init__(self):
        self.calls = []
        self.runs = []
        self.waits_for = None

    async def called(self, what):
        self.calls.append(what)
        if self.runs and what == self.waits_for:
            self.waits_for = None
            self.runs[0].drain(0)
            await asyncio.Event().wait()

    def since(self, function):
        """Do something; give what was called meanwhile."""
        before = len(self.calls)
        value = function()
        return value, self.calls[before:]


@pytest.fixture
def stopper(flow):
    """``acts:go`` notes what it is given and gives it back; fails for what ``fails`` holds."""
    found = Stopper()
    found.fails = set()

    @flow.act
    async def go(n, then=None):
        del then
        await found.called(n)
        if n in found.fails:
            raise gm.Permanent(f"{n} fails")
        return n

    return found


def run(graph, stopper, store, inputs=None, **options):
    options.setdefault("policy", PROMPT)
    report = gm.batch(graph, [inputs or {}], run_id="r", journal=store, on_start=stopper.runs.append, **options)
    return next(report.results(), None)


def stopped_then_done(flow, stopper, store, text, waits_for, inputs=None):
    """Run until a function is called with something, stop there, go on; give the result and what was called each time."""
    stopper.waits_for = waits_for
    graph = flow.load(text)
    first, before = stopper.since(lambda: run(graph, stopper, store, inputs))
    assert first is None  # it has not ended
    second, after = stopper.since(lambda: run(graph, stopper, store, inputs))
    return second, before, after


def go(name, n, more=""):
    return f'{{id: {name}, type: python, params: {{function: "acts:go", inputs: {{n: {n}}}}}{more}}}'


def test_finished_nodes_are_not_done_again(flow, stopper, store):
    text = f"nodes: [{go('a', 1)}, {go('b', 2)}, {go('c', 3)}]"
    result, before, after = stopped_then_done(flow, stopper, store, text, 2)
    assert (result.status, result.output["result"], before, after) == ("succeeded", 3, [1, 2], [2, 3])


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_finished_items_are_not_done_again_and_the_output_is_whole(flow, stopper, store, parallel):
    rule = f", batch: {{items: [0, 1, 2, 3, 4, 5], parallel: {parallel}, max_concurrent: 2}}"
    text = f"nodes: [{go('each', chr(34) + '${item}' + chr(34), rule)}]"
    result, before, after = stopped_then_done(flow, stopper, store, text, 3)
    assert [each["result"] for each in result.output["results"]] == [0, 1, 2, 3, 4, 5]
    assert set(before) & set(after) <= {3, 4}
    assert set(range(3)).isdisjoint(after)


def test_finished_rounds_are_not_done_again_and_count(flow, stopper, store):
    text = """
        nodes:
          - id: again
            type: python
            params: {function: "acts:go", inputs: {n: "${__round__}", then: "${past}"}}
            loop: {max: 4, keep: {min: "${round.result}"}}
    """
    result, before, after = stopped_then_done(flow, stopper, store, text, 3)
    assert (before, after) == ([1, 2, 3], [3, 4])
    assert (result.output["best_round"], result.output["round_count"], result.output["stop"]) == (1, 4, "max_rounds")


def test_finished_steps_inside_items_of_children_in_rounds_are_not_done_again(flow, stopper, store):
    text = """
        nodes:
          - id: again
            type: workflow
            params:
              inputs: {r: "${__round__}"}
              workflow:
                inputs: {r: {required: true}}
                nodes:
                  - id: each
                    type: workflow
                    params:
                      inputs: {name: "${r}-${item}"}
                      workflow:
                        inputs: {name: {required: true}}
                        nodes:
                          - {id: a, type: python, params: {function: "acts:go", inputs: {n: "${name}a"}}}
                          - {id: b, type: python, params: {function: "acts:go", inputs: {n: "${name}b"}}}
                    batch: {items: [x, y]}
            loop: {max: 2}
    """
    result, before, after = stopped_then_done(flow, stopper, store, text, "2-xb")
    assert result.status == "succeeded"
    assert before == ["1-xa", "1-xb", "1-ya", "1-yb", "2-xa", "2-xb"]
    assert after == ["2-xb", "2-ya", "2-yb"]


HANDLED = """
    nodes:
      - {id: risky, type: python, params: {function: "acts:go", inputs: {n: 1}}}
      - {id: good, type: python, params: {function: "acts:go", inputs: {n: good}}}
      - {id: handle, type: python, params: {function: "acts:go", inputs: {n: handle}}}
      - {id: tell, type: value, params: {error: "${risky.error.message}"}}
    edges: [{from: risky, to: good}, {from: risky, to: handle, action: error}, {from: handle, to: tell}]
"""


def test_an_error_edge_that_was_taken_is_taken_again_after_a_stop(flow, stopper, store):
    stopper.fails, stopper.waits_for = {1}, "handle"
    graph = flow.load(HANDLED)
    run(graph, stopper, store)
    stopper.fails = set()  # it would go well now, and is not asked
    result, after = stopper.since(lambda: run(graph, stopper, store))
    assert (result.output, after) == ({"error": "1 fails"}, ["handle"])


def test_failed_items_under_continue_stay_failed_after_a_stop(flow, stopper, store):
    text = """
        nodes:
          - {id: each, type: python, params: {function: "acts:go", inputs: {n: "${item}"}},
              batch: {items: [1, 2, 3], error_handling: continue}}
    """
    stopper.fails = {1}
    stopper.waits_for = 3
    graph = flow.load(text)
    run(graph, stopper, store)
    stopper.fails = set()
    result, after = stopper.since(lambda: run(graph, stopper, store))
    assert ([outcome["status"] for outcome in result.output["outcomes"]], after) == (
        ["failed", "succeeded", "succeeded"],
        [3],
    )
    assert dict(result.metadata) == {"degraded": True}


def test_a_kept_error_of_a_loop_is_kept_after_a_stop(flow, stopper, store):
    text = """
        nodes:
          - {id: again, type: python, params: {function: "acts:go", inputs: {n: "${__round__}"}}, loop: {max: 5, on_error: keep}}
          - {id: after, type: python, params: {function: "acts:go", inputs: {n: after}}}
        outputs: {stop: "${again.stop}", n: "${again.round_count}"}
    """
    stopper.fails, stopper.waits_for = {3}, "after"
    graph = flow.load(text)
    run(graph, stopper, store)
    stopper.fails = set()
    result, after = stopper.since(lambda: run(graph, stopper, store))
    assert (result.output, after) == ({"stop": "error", "n": 2}, ["after"])


def test_the_times_of_a_batch_are_the_recorded_ones_after_a_stop(flow, stopper, store):
    text = """
        nodes:
          - {id: each, type: python, params: {function: "acts:go", inputs: {n: "${item}"}}, batch: {items: [1, 2]}}
          - {id: after, type: python, params: {function: "acts:go", inputs: {n: after}}}
        outputs: {timing: "${each.batch_metadata.timing}"}
    """
    result, _, after = stopped_then_done(flow, stopper, store, text, "after")
    again = run(flow.load(text), stopper, store)
    assert after == ["after"]
    assert result.output["timing"]["total"] > 0
    assert again.output == result.output


def test_other_inputs_give_other_keys(flow, stopper, store):
    text = (
        f"{{inputs: {{x: {{required: true}}}}, nodes: [{go('a', 1)}, {{id: v, type: value, params: {{x: '${{x}}'}}}}]}}"
    )
    graph = flow.load(text)
    report = gm.batch(graph, [{"x": 1}, {"x": 2}], run_id="r", journal=store)
    assert [result.output["x"] for result in report.results()] == [1, 2]
    assert stopper.calls == [1, 1]
    gm.batch(graph, [{"x": 1}, {"x": 2}, {"x": 3}], run_id="r", journal=store)
    assert stopper.calls == [1, 1, 1]


def test_equal_items_of_one_batch_are_each_done(flow, stopper, store):
    graph = flow.load(
        'nodes: [{id: each, type: python, params: {function: "acts:go", inputs: {n: "${item}"}}, batch: {items: [7, 7, 7]}}]'
    )
    assert (run(graph, stopper, store).output["count"], stopper.calls) == (3, [7, 7, 7])


def test_params_that_are_no_data_count_by_their_type(flow, stopper, store):
    class Client:
        pass

    @flow.act
    async def use(client, n):
        return [type(client).__name__, n]

    text = """
        inputs: {x: {required: true}}
        nodes: [{id: a, type: python, params: {function: "acts:use", inputs: {client: "${x}", n: 1}}}]
        outputs: {y: "${a.result}"}
    """
    items = [{"id": "i", "x": Client()}, {"id": "j", "x": [{1, 2}]}, {"id": "k", "x": 3}]
    report = gm.batch(flow.load(text), items, run_id="r", journal=store)
    assert [result.output["y"][0] for result in report.results()] == ["Client", "list", "int"]


def test_a_step_whose_params_are_others_after_a_stop_is_done_again(flow, stopper, store):
    text = """
        inputs: {x: {required: true}}
        nodes:
          - {id: a, type: python, params: {function: "acts:go", inputs: {n: "${x}"}}}
          - {id: b, type: python, params: {function: "acts:go", inputs: {n: b}}}
    """
    graph = flow.load(text)
    stopper.waits_for = "b"
    report = gm.batch(
        graph, [{"id": "i", "x": 1}], run_id="r", journal=store, policy=PROMPT, on_start=stopper.runs.append
    )
    assert list(report.results()) == []
    report, after = stopper.since(
        lambda: gm.batch(graph, [{"id": "i", "x": 2}], run_id="r", journal=store, policy=PROMPT, on_change="invalidate")
    )
    assert after == [2, "b"]


def test_the_last_step_of_a_job_is_in_the_row_of_its_result(flow, stopper, store):
    stopper.fails = {"bad"}
    for name, nodes in (("one", [go("a", "'${n}'")]), ("two", [go("a", 1), go("b", "'${n}'")])):
        graph = flow.load(f"inputs: {{n: {{required: true}}}}\nnodes: [{', '.join(nodes)}]")
        gm.batch(graph, [{"n": "good"}, {"n": "bad"}], run_id=name, journal=store, policy=PROMPT)
        run = store.archive.find(name)
        assert (run.rows, run.steps) == (2, 2 * len(nodes) - 2)
        for entry in store.archive.entries(run, EVERYTHING):
            assert [step.path for step in store.archive.history(run, entry.key).steps] == ["a", "b"][: len(nodes)]


def test_invalidate_does_an_edited_node_again_and_what_depends_on_it_only(flow, stopper, store):
    text = """
        nodes:
          - {id: a, type: python, params: {function: "acts:go", inputs: {n: a}}}
          - {id: b, type: python, params: {function: "acts:go", inputs: {n: EDIT}}}
          - {id: beside, type: python, params: {function: "acts:go", inputs: {n: beside, then: "${a.result}"}}}
          - {id: after, type: python, params: {function: "acts:go", inputs: {n: after, then: "${b.result}"}}}
          - {id: far, type: python, params: {function: "acts:go", inputs: {n: far, then: "${beside.result}"}}}
    """
    run(flow.load(text.replace("EDIT", "b")), stopper, store)
    edited = flow.load(text.replace("EDIT", "new"))
    with pytest.raises(gm.ChangedError):
        run(edited, stopper, store)
    result, again = stopper.since(lambda: run(edited, stopper, store, on_change="invalidate"))
    assert (result.status, again) == ("succeeded", ["new", "after"])


def test_invalidate_does_nothing_again_that_depends_on_an_edited_node_which_gives_the_same(flow, stopper, store):
    text = """
        nodes:
          - {id: a, type: code, params: {code: "result = 2"}}
          - {id: b, type: python, params: {function: "acts:go", inputs: {n: b, then: "${a.result}"}}}
    """
    run(flow.load(text), stopper, store)
    _, again = stopper.since(
        lambda: run(flow.load(text.replace("result = 2", "result = 1 + 1")), stopper, store, on_change="invalidate")
    )
    assert again == []


def test_invalidate_of_the_node_that_gives_the_items_does_only_the_new_ones(flow, stopper, store):
    text = """
        nodes:
          - {id: list, type: value, params: {items: ITEMS}}
          - {id: each, type: python, params: {function: "acts:go", inputs: {n: "${item}"}}, batch: {items: "${list.items}"}}
    """
    run(flow.load(text.replace("ITEMS", "[1, 2, 3]")), stopper, store)
    result, again = stopper.since(
        lambda: run(flow.load(text.replace("ITEMS", "[1, 5, 3, 4]")), stopper, store, on_change="invalidate")
    )
    assert [each["result"] for each in result.output["results"]] == [1, 5, 3, 4]
    assert again == [5, 4]


def test_invalidate_does_a_node_again_whose_function_was_edited_and_what_depends_on_it_only(tmp_path):
    module = """
        def first(): note("first"); return 1
        def edited(): note("edited"); return EDIT
        def after(n): note("after"); return n
    """
    text = """
nodes:
  - {id: first, type: python, params: {function: "program:first"}}
  - {id: edited, type: python, params: {function: "program:edited"}}
  - {id: after, type: python, params: {function: "program:after", inputs: {n: "${edited.result}"}}}
"""
    (tmp_path / "workflow.yaml").write_text(text, encoding="utf-8")
    program = Program(tmp_path, module.replace("EDIT", "1"))
    script = """
        (result,) = gm.batch("workflow.yaml", [{"id": "i"}], run_id="r", on_change="invalidate").results()
        print(result.output["result"])
    """
    assert program.run(script) == "1"
    program.put(module.replace("EDIT", "2"))
    assert program.run(script) == "2"
    assert program.notes == ["first", "edited", "after", "edited", "after"]


def test_layout_comments_and_the_order_of_keys_are_no_change(flow, stopper, store):
    run(
        flow.load('nodes: [{id: a, type: python, params: {function: "acts:go", inputs: {n: 1, then: 2}}}]'),
        stopper,
        store,
    )
    text = """
        # another look
        nodes:
          - params:
              inputs:
                then: 2
                n: 1
              function: acts:go
            type: python
            id: a
    """
    _, again = stopper.since(lambda: run(flow.load(text), stopper, store))
    assert again == []


def test_retry_of_a_failed_item_does_not_repeat_its_finished_steps(flow, stopper, store):
    text = """
        nodes:
          - {id: a, type: python, params: {function: "acts:go", inputs: {n: a}}}
          - {id: each, type: python, params: {function: "acts:go", inputs: {n: "${item}"}}, batch: {items: [1, 2, 3, 4]}}
          - {id: b, type: python, params: {function: "acts:go", inputs: {n: b}}}
    """
    graph = flow.load(text)
    stopper.fails = {3}
    assert run(graph, stopper, store).status == "failed"
    stopper.fails = set()
    report, again = stopper.since(lambda: gm.retry("r", graph=graph, journal=store))
    assert ([result.status for result in report.results()], again) == (["succeeded"], [3, 4, "b"])


def test_retry_of_a_failed_job_does_its_handled_failures_again(flow, stopper, store):
    graph = flow.load(HANDLED)
    stopper.fails = {1, "handle"}
    assert run(graph, stopper, store).status == "failed"
    stopper.fails = set()
    report, again = stopper.since(lambda: gm.retry("r", graph=graph, journal=store))
    (result,) = report.results()
    assert (result.status, again) == ("succeeded", [1, "good"])


def test_resume_opens_the_workflow_again_by_its_path(flow, stopper, store):
    stopper.waits_for = 2
    graph = flow.load(f"nodes: [{go('a', 1)}, {go('b', 2)}]")
    items = flow.folder / "items.jsonl"
    items.write_text('{"id": "i"}\n', encoding="utf-8")
    gm.batch(graph, gm.source(items), run_id="r", journal=store, policy=PROMPT, on_start=stopper.runs.append)
    report, again = stopper.since(lambda: gm.resume("r", journal=store))
    assert ([result.status for result in report.results()], again) == (["succeeded"], [2])


WORKFLOW = """
nodes:
  - {id: list, type: value, params: {items: [0, 1, 2, 3, 4, 5]}}
  - {id: each, type: python, params: {function: "program:go", inputs: {n: "${item}"}},
      batch: {items: "${list.items}", parallel: PARALLEL, max_concurrent: 2}}
  - {id: sum, type: python, params: {function: "program:total", inputs: {rows: "${each.results}"}}}
"""


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_a_killed_batch_resumes_at_the_unfinished_items(tmp_path, parallel):
    program = Program(
        tmp_path,
        """
        def go(n):
            note(f"go-{n}")
            if n == 3 and noted().count("go-3") == 1:
                note("there")
                threading.Event().wait()
            return n

        def total(rows):
            note("total")
            return sum(row["result"] for row in rows)
        """,
    )
    (tmp_path / "workflow.yaml").write_text(WORKFLOW.replace("PARALLEL", parallel), encoding="utf-8")
    script = """
        report = gm.batch("workflow.yaml", [{"id": "i"}], run_id="r", policy=PROMPT)
        print([result.output["result"] for result in report.results()])
    """
    with program.killed_when(script, "there"):
        wait_until(lambda: steps_recorded(tmp_path) >= 3)
    assert program.run(script) == "[15]"
    notes = program.notes
    assert [notes.count(f"go-{n}") for n in (0, 1, 2)] == [1, 1, 1]
    assert (notes.count("go-3"), notes.count("total")) == (2, 1)


def steps_recorded(folder):
    """Count the steps that the journal holds of the item ``i``."""
    with closing(gm.open_journal(folder / "journal.db")) as journal:
        return len(journal.archive.history(journal.archive.find("r"), item_key("i")).steps)


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_a_kill_repeats_at_most_what_ran_or_was_not_committed(tmp_path, parallel):
    program = Program(
        tmp_path,
        """
        def go(n):
            note(f"go-{n}")
            if n == 150 and noted().count("go-150") == 1:
                die()
            return n

        def total(rows):
            return sum(row["result"] for row in rows)
        """,
    )
    text = WORKFLOW.replace("[0, 1, 2, 3, 4, 5]", str(list(range(200)))).replace("PARALLEL", parallel)
    (tmp_path / "workflow.yaml").write_text(text, encoding="utf-8")
    script = """
        report = gm.batch("workflow.yaml", [{"id": "i"}], run_id="r", policy=PROMPT)
        print([result.output["result"] for result in report.results()])
    """
    program.run(script, code=KILLED)
    assert program.run(script) == f"[{sum(range(200))}]"
    repeated = len(program.notes) - 200
    assert 1 <= repeated <= 2 * 4  # the concurrency of the policy is 4


@pytest.mark.parametrize(("rule", "status", "count"), [("dead_letter", "failed", 1), ("retry", "succeeded", 2)])
def test_an_unsafe_step_under_way_at_a_kill_is_ambiguous_unless_it_says_retry(tmp_path, rule, status, count):
    program = Program(
        tmp_path,
        """
        def before():
            note("before")

        def pay():
            note("pay")
            if noted().count("pay") == 1:
                die()
        """,
    )
    text = f"""
nodes:
  - {{id: before, type: python, params: {{function: "program:before"}}}}
  - {{id: pay, type: python, params: {{function: "program:pay"}}, effect: unsafe, on_ambiguous: {rule}}}
"""
    (tmp_path / "workflow.yaml").write_text(text, encoding="utf-8")
    script = """
        (result,) = gm.batch("workflow.yaml", [{"id": "i"}], run_id="r", policy=PROMPT).results()
        print(result.status, result.error and result.error.kind)
    """
    program.run(script, code=KILLED)
    assert program.run(script) == (f"{status} None" if status == "succeeded" else "failed ambiguous")
    assert program.notes.count("pay") == count
