import graphmill as gm
from support.node_steps import output_of_step
from support.workflows import load_workflow, output_of


def test_a_value_node_gives_its_params_as_they_are_resolved(tmp_path):
    text = """
    inputs: {it: {required: true}}
    nodes: [{id: v, type: value, params: {type: "${it}", "any key": {deep: ["x ${it}", 1.5, null, true]}}}]
    """
    assert output_of(load_workflow(tmp_path, text), 3) == {"type": 3, "any key": {"deep": ["x 3", 1.5, None, True]}}


def test_a_value_node_may_have_no_params(tmp_path):
    for params in ("", ", params: {}", ", params: null"):
        graph = load_workflow(tmp_path, f"nodes: [{{id: v, type: value{params}}}]")
        assert gm.batch(graph, [{}]).collect() == [{}]


def test_the_value_type_gives_its_params_by_reference():
    params = {"any key": [1, {"deep": None}]}
    assert output_of_step("value", **params).values == params
    assert output_of_step("value", **params).values["any key"] is params["any key"]
