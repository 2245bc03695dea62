import pytest

import graphmill as gm
from graphmill.graph.workflow import load_data
from support.compiling import compiled


def test_what_is_there_can_be_looked_up(tmp_path):
    graph = compiled(
        tmp_path,
        """
        inputs: {url: {required: true}, rounds: {default: 3}, list: {default: []}}
        nodes:
          - {id: fetch, type: value, params: {response: "${url}", i: 0, error: "none"}}
          - id: each
            type: value
            params: {user: "${user.name} ${__index__} of ${fetch.response}", deep: [{x: "${user.list[${__index__}]}"}]}
            batch: {items: "${list}", as: user, error_handling: continue}
          - id: inline
            type: value
            params: {x: "${item}"}
            batch: {items: ["${url}", {x: "${fetch.i}"}, 3]}
          - id: again
            type: value
            params: {x: "${past[-1].x ?? 0}", xs: [a, b], n: "${__round__}", all: "${inline.results[0]}"}
            loop: {max: "${rounds}", until: {done: "${round.x}", whole: "${round}"}, repeats: {same: "${round.xs[${fetch.i}]}"}}
          - id: both
            type: value
            params: {x: "${item} ${__index__} ${__round__} ${past}", e: "${fetch.error}"}
            batch: {items: "${each.results}"}
            loop: {max: 2, keep: {min: "${round.x}"}}
        outputs:
          all: "${each.results}"
          metadata: "${each.batch_metadata.timing}"
          counts: ["${each.count}", "${each.success_count}", "${each.error_count}", "${each.cancelled_count}", "${each.errors[0].kind}"]
          first: "${each.outcomes[0].result}"
          best: ["${again.best.x}", "${again.best_round}", "${again.rounds[0]}", "${again.round_count}", "${again.stop}"]
          both: "${both.results[0]}"
          node: "${fetch}"
        """,
    )
    assert list(graph.outputs) == ["all", "metadata", "counts", "first", "best", "both", "node"]


def test_what_is_taken_as_written_is_no_template():
    code = "result: str = '${nothing}' + '${'"
    graph = load_data(
        {"inputs": {"x": {}}, "nodes": [{"id": "a", "type": "code", "params": {"code": code, "inputs": {"x": "${x}"}}}]}
    )
    params = graph.nodes["a"].params
    assert params.resolve({"x": 5}) == {"code": code, "inputs": {"x": 5}}
    assert [str(reference) for reference in params.references] == ["x"]
    assert not params.is_constant


def test_a_literal_template_is_text():
    graph = load_data({"nodes": [{"id": "a", "type": "value", "params": {"x": "$${nothing}"}}]})
    assert graph.nodes["a"].params.resolve({}) == {"x": "${nothing}"}


def test_items_may_end_with_a_line_s_end(tmp_path):
    graph = compiled(
        tmp_path, "inputs: {x: {}}\nnodes:\n  - id: a\n    type: value\n    batch:\n      items: |\n        ${x}\n"
    )
    assert graph.nodes["a"].batch.items.resolve({"x": [1]}) == [1]


def test_a_child_without_declared_outputs_may_have_any():
    child = {"nodes": [{"id": "b", "type": "value"}]}
    load_data(
        {"nodes": [{"id": "a", "type": "workflow", "params": {"workflow": child}}], "outputs": {"x": "${a.anything}"}}
    )


@pytest.mark.parametrize("place", ["params", "items", "max", "outputs"])
def test_an_unknown_name_is_found_in_every_place(place):
    node = {"id": "a", "type": "value"}
    workflow = {"nodes": [node]}
    if place == "params":
        node["params"] = {"x": "${no}"}
    elif place == "items":
        node["batch"] = {"items": "${no}"}
    elif place == "max":
        node["loop"] = {"max": "${no}"}
    else:
        workflow["outputs"] = {"x": "${no}"}
    with pytest.raises(gm.WorkflowError, match=r"\$\{no\}: no node or input 'no'; available here: (none|a)$"):
        load_data(workflow)
