import pytest
from hypothesis import given, settings

import graphmill as gm
from support.odd_texts import json_values
from support.workflows import load_workflow, output_of

GREET = """
inputs:
  name: {required: true}
  tone: {default: friendly}
  note: {}
nodes:
  - {id: words, type: value, params: {greeting: "Hello ${name}, ${tone}", note: "${note}"}}
outputs: {text: "${words.greeting}", note: "${words.note}"}
"""
ECHO = """
inputs: {it: {required: true}}
nodes: [{id: node, type: value, params: {same: "${it}", text: "<${it}>"}}]
"""
TWO = """
inputs: {a: {required: true}, b: {required: true}}
nodes: [{id: node, type: value, params: {a: "${a}", b: "${b}"}}]
"""


def test_an_item_s_fields_are_bound_by_name_and_others_are_ignored(tmp_path):
    graph = load_workflow(tmp_path, GREET)
    assert output_of(graph, {"name": "Ann", "other": 1}) == {"text": "Hello Ann, friendly", "note": None}
    assert output_of(graph, {"name": "Ann", "tone": "brisk", "note": [1]}) == {"text": "Hello Ann, brisk", "note": [1]}


@pytest.mark.parametrize("item", ["Ann", 5, 0, "", False, None, [1, 2]])
def test_an_item_that_is_no_mapping_is_bound_to_the_one_required_input(tmp_path, item):
    output = output_of(load_workflow(tmp_path, ECHO), item)
    assert output["same"] == item
    assert type(output["same"]) is type(item)


@settings(deadline=None, max_examples=40)
@given(json_values)
def test_any_value_goes_through_a_workflow_unchanged(tmp_path_factory, value):
    graph = load_workflow(tmp_path_factory.getbasetemp(), ECHO)
    assert output_of(graph, {"it": value})["same"] == value


# --- fixed inputs ---


def test_fixed_inputs_hold_for_every_item_and_leave_the_first_graph_as_it_was(tmp_path):
    graph = load_workflow(tmp_path, GREET)
    brisk = graph.with_inputs({"tone": "brisk"})
    assert gm.batch(brisk, ["Ann", {"name": "Bob", "tone": "ignored"}]).collect() == [
        {"text": "Hello Ann, brisk", "note": None},
        {"text": "Hello Bob, brisk", "note": None},
    ]
    assert output_of(graph, "Ann")["text"] == "Hello Ann, friendly"


def test_a_fixed_input_leaves_the_one_other_for_an_item_that_is_no_mapping(tmp_path):
    graph = load_workflow(tmp_path, TWO).with_inputs({"a": 1})
    assert output_of(graph, 5) == {"a": 1, "b": 5}
    assert output_of(graph.with_inputs({"a": 2}), {"b": 6}) == {"a": 2, "b": 6}
    assert output_of(graph.with_inputs({"b": 3}), {}) == {"a": 1, "b": 3}


# --- nodes and outputs ---


# --- one graph for all jobs ---


def test_changing_an_output_changes_neither_the_graph_nor_the_item_nor_another_output(tmp_path):
    text = """
    inputs: {it: {required: true}, some: {default: [1, {a: 2}]}}
    nodes: [{id: node, type: value, params: {it: "${it}", some: "${some}", own: [{}]}}]
    """
    fixed = {"some": [3]}
    for graph, some in (
        (load_workflow(tmp_path, text), [1, {"a": 2}]),
        (load_workflow(tmp_path, text).with_inputs(fixed), [3]),
    ):
        items = [{"it": [0]}, {"it": [0]}]
        first, second = gm.batch(graph, items).collect()
        first["some"].append("changed")
        first["it"].append("changed")
        first["own"][0]["changed"] = True
        assert second == {"it": [0], "some": some, "own": [{}]}
        assert output_of(graph, items[0]) == {"it": [0], "some": some, "own": [{}]}
    assert fixed == {"some": [3]}


def test_many_jobs_share_one_graph_at_once_and_none_sees_another_s_values(tmp_path):
    graph = load_workflow(
        tmp_path,
        """
        inputs: {n: {required: true}}
        nodes:
          - {id: a, type: value, params: {n: "${n}"}}
          - {id: wait, type: python, params: {function: "asyncio:sleep", inputs: {delay: 0, result: "${a.n}"}}}
          - {id: b, type: value, params: {before: "${a.n}", after: "${wait.result}"}}
        """,
    )
    assert gm.batch(graph, range(200), concurrency=100).collect() == [{"before": n, "after": n} for n in range(200)]


def test_a_graph_that_is_called_by_itself_says_how_it_is_run(tmp_path):
    with pytest.raises(gm.UsageError, match=r"gm\.batch\(graph, \[inputs\]\)"):
        load_workflow(tmp_path, ECHO)(5)


def test_a_graph_is_printed_by_its_name_nodes_and_inputs(tmp_path):
    text = (
        "{name: w, inputs: {a: {required: true}, b: {default: 1}}, nodes: [{id: x, type: value}, {id: y, type: value}]}"
    )
    assert repr(load_workflow(tmp_path, text)) == "<Graph 'w': nodes x, y; inputs a, b?>"
    many = ", ".join(f"{{id: n{number}, type: value}}" for number in range(500))
    assert repr(load_workflow(tmp_path, f"nodes: [{many}]")).endswith("n9 and 490 more; inputs none>")
