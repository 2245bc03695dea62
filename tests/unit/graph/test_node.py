import pytest

from graphmill.graph.node import find_node_type, key_problems, node_types, require_keys


def test_node_types_are_found_by_their_entry_points():
    assert sorted(node_types()) == ["python", "value"]
    assert find_node_type("value") is find_node_type("value")


@pytest.mark.parametrize(
    ("name", "message"), [("pyhton", "no node type 'pyhton'; did you mean 'python'"), (None, "no node type None"), (["x"], r"\['x'\]")]
)
def test_an_unknown_type_is_refused_with_the_nearest_and_all_there_are(name, message):
    with pytest.raises(ValueError, match=rf"{message}.*there are python, value"):
        find_node_type(name)


def test_every_unknown_and_missing_key_is_listed():
    found = {"fuction": 1, "inputs": None, 5: 1}
    problems = [
        "unknown key 'fuction'; did you mean 'function'?; known are function, inputs",
        "unknown key 5; known are function, inputs",
        "'function' is missing",
        "'inputs' is missing",
    ]
    assert key_problems(found, known=("function", "inputs"), required=("function", "inputs")) == problems
    with pytest.raises(ValueError, match=r"unknown key 'fuction'.*unknown key 5.*'function' is missing; 'inputs' is missing"):
        require_keys(found, known=("function", "inputs"), required=("function", "inputs"))


def test_known_keys_are_no_problem():
    require_keys({"function": False}, known=("function", "inputs"), required=("function",))
