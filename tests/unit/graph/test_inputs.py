from dataclasses import FrozenInstanceError

import pytest

import graphmill as gm
from graphmill.graph.graph import Edge, Graph, Input
from graphmill.graph.inputs import Binding


def graph_with(*inputs, given=None):
    made = Graph(
        name="w",
        path=None,
        inputs={each.name: each for each in inputs},
        nodes={},
        starts=(),
        outputs=None,
        outputs_fingerprint="",
    )
    return made.with_inputs(given or {})


def bound(graph, item):
    return Binding(graph).bind(item)


URL = Input(name="url", type="string", is_required=True)
TONE = Input(name="tone", type="string", default="friendly")


def test_an_item_that_is_a_mapping_gives_the_inputs_that_it_holds_and_defaults_the_others():
    assert bound(graph_with(URL, TONE), {"url": "u", "other": 1}) == {"url": "u", "tone": "friendly"}


def test_an_item_that_is_no_mapping_is_the_only_open_input():
    assert bound(graph_with(URL, TONE), "u") == {"url": "u", "tone": "friendly"}
    assert bound(graph_with(URL, Input(name="other", is_required=True), given={"other": 1}), "u") == {
        "url": "u",
        "other": 1,
    }


@pytest.mark.parametrize(
    ("inputs", "item", "message"),
    [
        (
            [TONE],
            "u",
            "the item must be a mapping, got str; other items need a workflow with one required input, and this one has 0",
        ),
        ([URL, TONE], {"tone": "brisk"}, "the item lacks the required input url; it has tone"),
        ([URL], {}, "the item lacks the required input url; it has nothing"),
        ([URL], 5, "input 'url': must be a string, got 5"),
        ([URL], {"url": None}, "input 'url': must be a string, got null"),
        ([TONE], {"tone": None}, "input 'tone': must be a string, got null"),
        ([TONE], {"tone": ["x"]}, "input 'tone': must be a string, got a list"),
    ],
)
def test_what_can_not_be_bound_is_a_permanent_failure_that_names_the_input(inputs, item, message):
    with pytest.raises(gm.Permanent) as caught:
        bound(graph_with(*inputs), item)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("string", ["", "x"], [1, None, ["x"], b"x"]),
        ("number", [1, 1.5, float("nan")], [True, "1", None]),
        ("integer", [1, -1], [1.0, True, "1"]),
        ("boolean", [True, False], [0, "true"]),
        ("array", [[], (1,), range(3)], ["text", {}, b"x", {1}]),
        ("object", [{}, {"a": 1}], [[], "{}", None]),
        ("any", [None, 1, "x", object()], []),
        (None, [None, 1, "x", object()], []),
    ],
)
def test_each_type_takes_its_own_and_no_other(name, right, wrong):
    graph = graph_with(Input(name="it", type=name, is_required=True))
    for value in right:
        assert bound(graph, {"it": value})["it"] is value
    for value in wrong:
        with pytest.raises(gm.Permanent, match=r"^input 'it': "):
            bound(graph, {"it": value})


def test_null_is_taken_where_it_is_the_default():
    assert bound(graph_with(Input(name="n", type="integer")), {"n": None}) == {"n": None}


def test_a_given_input_wins_over_the_items_and_is_checked_when_it_is_given():
    assert bound(graph_with(URL, given={"url": "given"}), {"url": 5}) == {"url": "given"}
    with pytest.raises(gm.UsageError, match="workflow 'w': input 'url': must be a string, got 5"):
        graph_with(URL, given={"url": 5})
    with pytest.raises(
        gm.UsageError, match="workflow 'w' has no input 'ur' \\(did you mean 'url'\\?\\); its inputs: url"
    ):
        graph_with(URL, given={"ur": 5})


def test_what_one_job_changes_in_a_default_the_next_does_not_see():
    graph = graph_with(Input(name="a", default=[1]), Input(name="b", default=None), given={"b": [2]})
    for _ in range(2):
        scope = bound(graph, {})
        assert scope == {"a": [1], "b": [2]}
        scope["a"].append(1)
        scope["b"].append(1)


def test_a_graph_can_not_be_changed():
    graph = graph_with(URL)
    with pytest.raises(FrozenInstanceError):
        graph.name = "x"
    with pytest.raises(TypeError):
        graph.given["url"] = 1
    with pytest.raises(FrozenInstanceError):
        Edge(source="a", target="b").action = "x"
