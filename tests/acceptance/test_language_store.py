"""The workflow language: the store. Upstream data is read-only; user code that changes what it got changes only its own copy."""

import copy
import json
from collections import Counter

import pytest

import graphmill as gm
from support.flows import PROMPT, succeeded

ROW = {"list": [1, [2, {"deep": [3]}]], "map": {"inner": {"x": 1}, "rows": [{"y": 1}]}}

SPOIL = """
row["list"].append("spoilt")
row["list"][1][1]["deep"].clear()
row["map"]["inner"]["x"] = "spoilt"
row["map"]["rows"][0]["new"] = row["map"]
del row["map"]["rows"][0]["new"]
row["map"]["rows"].append({})
row["new"] = 1
"""


def spoil(row):
    """Change what was given at every depth, as careless code does."""
    exec(SPOIL, {"row": row})


PLACES = ["loop", "thread", "function-process", "code-process"]


@pytest.fixture
def careless(flow, tmp_path, monkeypatch):
    """Give the params of a node that spoils its input ``row``, at each place where code can run; it tells what it saw first.

    With ``fails`` it fails its first attempts, after it has spoilt what it got.
    """
    tries = tmp_path / "tries"
    tries.mkdir()
    source = f"""
import json, os
SPOIL = {SPOIL!r}
def _do(row, fails, name):
    seen = json.dumps(row)
    exec(SPOIL, {{"row": row}})
    number = len([each for each in os.listdir({str(tries)!r}) if each.startswith(name + "-")])
    open(os.path.join({str(tries)!r}, f"{{name}}-{{number}}"), "w").close()
    if number < fails:
        raise ConnectionError("not yet")
    return json.loads(seen)
def plain(row, fails=0, name="x"):
    return _do(row, fails, name)
async def on_loop(row, fails=0, name="x"):
    return _do(row, fails, name)
"""
    module = f"careless_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def params(place, row, fails=0, name="x"):
        inputs = f'{{row: "{row}", fails: {fails}, name: "{name}"}}'
        if place == "code-process":
            return f'{{inputs: {inputs}, code: "from {module} import _do\\nresult = _do(row, fails, name)"}}'
        function = "on_loop" if place == "loop" else "plain"
        more = ", isolation: process" if place == "function-process" else ""
        return f'{{function: "{module}:{function}", inputs: {inputs}{more}}}'

    return params


@pytest.mark.parametrize("place", PLACES)
def test_what_a_node_changes_is_unseen_upstream_and_by_the_next_node(flow, careless, place):
    given = copy.deepcopy(ROW)
    item = {"row": given}
    output = flow.output(
        f"""
        inputs: {{row: {{required: true}}}}
        nodes:
          - {{id: named, type: value, params: {{row: "${{row}}", part: "${{row.map}}"}}}}
          - {{id: one, type: python, params: {careless(place, "${named.row}")}}}
          - {{id: two, type: python, params: {careless(place, "${row}")}}}
        outputs: {{row: "${{row}}", named: "${{named.row}}", part: "${{named.part}}", one: "${{one.result}}", two: "${{two.result}}"}}
        """,
        item,
    )
    assert output == {"row": ROW, "named": ROW, "part": ROW["map"], "one": ROW, "two": ROW}
    assert (given, item) == (ROW, {"row": ROW})


@pytest.mark.parametrize("place", PLACES)
def test_what_an_item_changes_is_unseen_in_the_source_and_by_its_siblings(flow, careless, place):
    shared = copy.deepcopy(ROW)
    rows = [shared, shared, {**copy.deepcopy(ROW), "map": shared["map"]}]
    output = flow.output(
        f"""
        inputs: {{rows: {{required: true}}}}
        nodes:
          - {{id: each, type: python, params: {careless(place, "${item}")}, batch: {{items: "${{rows}}", parallel: true}}}}
          - {{id: again, type: python, params: {careless(place, "${item}")}, batch: {{items: "${{rows}}"}}}}
        outputs: {{each: "${{each.results}}", again: "${{again.results}}", rows: "${{rows}}"}}
        """,
        {"rows": rows},
    )
    assert [each["result"] for each in output["each"] + output["again"]] == [ROW] * 6
    assert [each["item"] for each in output["each"] + output["again"]] == [ROW] * 6
    assert output["rows"] == [ROW] * 3
    assert shared == ROW


@pytest.mark.parametrize("place", PLACES)
def test_what_a_failed_attempt_changed_is_unseen_by_the_next(flow, careless, place):
    output = flow.output(
        f"""
        inputs: {{rows: {{required: true}}}}
        nodes:
          - {{id: each, type: python, params: {careless(place, "${item}", 2, "n${__index__}")},
              batch: {{items: "${{rows}}", parallel: true}}}}
        """,
        {"rows": [ROW, ROW]},
    )
    assert [each["result"] for each in output["results"]] == [ROW, ROW]
    assert sorted(path.name for path in (flow.folder / "tries").iterdir()) == [
        f"n{n}-{t}" for n in range(2) for t in range(3)
    ]


@pytest.mark.parametrize("place", PLACES)
def test_constants_of_the_workflow_are_the_same_in_every_item_and_job(flow, careless, place):
    constants = json.dumps(ROW)
    graph = flow.load(
        f"""
        nodes:
          - {{id: fixed, type: value, params: {{row: {constants}}}}}
          - {{id: each, type: python, params: {careless(place, "${fixed.row}")}, batch: {{items: [1, 2]}}}}
        outputs: {{seen: "${{each.results}}", row: "${{fixed.row}}"}}
        """
    )
    for result in gm.batch(graph, [{}, {}], policy=PROMPT).results():
        assert [each["result"] for each in succeeded(result)["seen"]] == [ROW, ROW]
        assert result.output["row"] == ROW


def test_inline_params_of_a_function_are_the_same_in_every_attempt_and_job(flow):
    seen, tries = [], Counter()

    @flow.act
    async def take(row):
        seen.append(copy.deepcopy(row))
        spoil(row)
        tries[gm.idempotency_key()] += 1
        if tries[gm.idempotency_key()] < 3:
            raise gm.Transient("again")

    graph = flow.load(
        f'nodes: [{{id: go, type: python, params: {{function: "acts:take", inputs: {{row: {json.dumps(ROW)}}}}}}}]'
    )
    report = gm.batch(graph, [{"id": 1}, {"id": 2}], policy=PROMPT, concurrency=1)
    assert [result.status for result in report.results()] == ["succeeded", "succeeded"]
    assert seen == [ROW] * 6


def test_inline_items_and_defaults_are_the_same_in_every_job(flow):
    @flow.act
    async def take(row, other):
        before = copy.deepcopy([row, other])
        spoil(row)
        spoil(other)
        return before

    graph = flow.load(
        f"""
        inputs: {{other: {{default: {json.dumps(ROW)}}}}}
        nodes: [{{id: go, type: python, params: {{function: "acts:take", inputs: {{row: "${{item}}", other: "${{other}}"}}}},
            batch: {{items: [{json.dumps(ROW)}]}}}}]
        """
    )
    for result in gm.batch(graph, [{"id": 1}, {"id": 2}], concurrency=1).results():
        assert result.output["results"][0]["result"] == [ROW, ROW]


@pytest.mark.parametrize(
    "outputs",
    ["", 'outputs: {row: "${fixed.row}"}', 'outputs: {row: "${given}"}', f"outputs: {{row: {json.dumps(ROW)}}}"],
)
def test_what_one_job_s_output_holds_is_not_the_next_one_s(flow, outputs):
    seen = []

    def on_result(job, result):
        del job
        seen.append(copy.deepcopy(result.output))
        spoil(result.output["row"])

    graph = flow.load(
        f"""
        inputs: {{given: {{default: {json.dumps(ROW)}}}}}
        nodes: [{{id: fixed, type: value, params: {{row: {json.dumps(ROW)}}}}}]
        {outputs}
        """
    )
    gm.batch(graph, [{}, {}, {}], concurrency=1, on_result=on_result)
    assert seen == [{"row": ROW}] * 3


def test_what_is_changed_in_an_output_is_unseen_in_the_source_and_by_the_next_job(flow):
    seen, shared = [], copy.deepcopy(ROW)

    def on_result(job, result):
        del job
        seen.append(copy.deepcopy(result.output))
        spoil(result.output["row"])

    graph = flow.load(
        "{inputs: {row: {required: true}}, nodes: [{id: same, type: value, params: {x: 1}}], outputs: {row: '${row}'}}"
    )
    gm.batch(graph, [{"row": shared}, {"row": shared}], concurrency=1, on_result=on_result)
    assert (seen, shared) == ([{"row": ROW}] * 2, ROW)


@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_function_gave_stays_as_it_was_although_the_function_goes_on_with_it(flow, is_async):
    kept = []

    def collect(n):
        kept.append({"n": n})
        return kept

    async def collect_on_loop(n):
        return collect(n)

    collect_on_loop.__name__ = collect.__name__
    flow.act(collect_on_loop if is_async else collect)
    output = flow.output(
        'nodes: [{id: each, type: python, params: {function: "acts:collect", inputs: {n: "${item}"}}, batch: {items: [0, 1, 2]}}]'
    )
    assert [each["result"] for each in output["results"]] == [[{"n": n} for n in range(count)] for count in (1, 2, 3)]


def test_a_function_that_gives_its_own_argument_back_gives_no_upstream_data(flow):
    @flow.act
    async def same(row):
        return row

    @flow.act
    async def take(row):
        spoil(row)

    output = flow.output(
        """
        inputs: {row: {required: true}}
        nodes:
          - {id: same, type: python, params: {function: "acts:same", inputs: {row: "${row}"}}}
          - {id: take, type: python, params: {function: "acts:take", inputs: {row: "${same.result}"}}}
        outputs: {row: "${row}", same: "${same.result}"}
        """,
        {"row": copy.deepcopy(ROW)},
    )
    assert output == {"row": ROW, "same": ROW}


@pytest.mark.parametrize("kind", [tuple, list])
def test_tuples_are_walked_too(flow, kind):
    @flow.act
    async def take(rows):
        spoil(rows[0])

    rows = kind([copy.deepcopy(ROW)])
    flow.output(
        '{inputs: {rows: {required: true}}, nodes: [{id: t, type: python, params: {function: "acts:take", inputs: {rows: "${rows}"}}}]}',
        {"rows": rows},
    )
    assert rows == kind([ROW])


def test_rounds_do_not_change_what_other_rounds_gave(flow):
    @flow.act
    async def take(row, past):
        for each in past:
            spoil(each["result"])
        return row

    output = flow.output(
        """
        inputs: {row: {required: true}}
        nodes: [{id: again, type: python, params: {function: "acts:take", inputs: {row: "${row}", past: "${past}"}}, loop: {max: 3}}]
        """,
        {"row": copy.deepcopy(ROW)},
    )
    assert [each["result"] for each in output["rounds"]] == [ROW] * 3


def test_what_a_child_changes_is_unseen_by_its_parent(flow):
    @flow.act
    async def take(row):
        spoil(row)

    output = flow.output(
        """
        inputs: {row: {required: true}}
        nodes:
          - id: down
            type: workflow
            params:
              inputs: {row: "${row}"}
              workflow:
                inputs: {row: {required: true}}
                nodes: [{id: take, type: python, params: {function: "acts:take", inputs: {row: "${row}"}}}]
                outputs: {row: "${row}"}
        outputs: {row: "${row}", child: "${down.row}"}
        """,
        {"row": copy.deepcopy(ROW)},
    )
    assert output == {"row": ROW, "child": ROW}


def test_a_child_sees_its_inputs_only(flow):
    problem = flow.problem(
        """
        inputs: {secret: {default: 1}}
        nodes:
          - id: down
            type: workflow
            params: {workflow: {nodes: [{id: v, type: value, params: {x: "${secret}"}}]}}
        """
    )
    assert "secret" in problem


def test_each_node_writes_under_its_own_id(flow):
    output = flow.output(
        """
        nodes:
          - {id: one, type: value, params: {x: 1}}
          - {id: two, type: value, params: {x: 2, one: shadow}}
          - {id: three, type: value, params: {all: ["${one.x}", "${two.x}", "${two.one}"], whole: "${one}"}}
        """
    )
    assert output == {"all": [1, 2, "shadow"], "whole": {"x": 1}}


def test_two_jobs_share_nothing(flow):
    graph = flow.load(
        """
        inputs: {n: {required: true}}
        nodes:
          - {id: route, type: branch, params: {on: "${n}", cases: {0: write}, default: skip}}
          - {id: written, type: value, params: {n: "${n}"}}
          - {id: read, type: value, params: {found: "${written.n ?? null}"}}
        edges: [{from: route, to: written, action: write}, {from: route, to: read, action: skip}, {from: written, to: read}]
        """
    )
    assert gm.batch(graph, [{"n": n} for n in (0, 1, 0, 2)]).collect() == [{"found": n} for n in (0, None, 0, None)]
