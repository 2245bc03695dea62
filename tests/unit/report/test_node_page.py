from pathlib import Path

from graphmill.core.yaml import from_yaml
from graphmill.graph.node_params import param_docs, param_problems
from graphmill.graph.registry import find_node_type
from graphmill.report.node_page import node_lines, node_markdown, node_page, own_types
from support.own_types import TYPES

DOCS = Path(__file__).parents[3] / "docs" / "nodes.md"


def test_the_reference_in_docs_is_what_the_types_say():
    remedy = "run: python -m graphmill.report.node_page > docs/nodes.md"
    assert DOCS.read_text(encoding="utf-8") == node_markdown(own_types()), remedy


def test_every_type_of_ours_is_described_to_the_last_param():
    for node_type in own_types():
        assert node_type.summary.endswith(".")
        assert all(doc.description for doc in param_docs(node_type)), node_type.name


def test_every_example_is_right():
    for node_type in own_types():
        examples = from_yaml(node_type.example.encode())
        assert find_node_type(examples[0]["type"]) is node_type
        for example in examples:
            assert param_problems(find_node_type(example["type"]), example["params"]) == []


def test_types_are_listed_with_their_aliases():
    lines = node_lines(own_types())
    assert [line.split()[0] for line in lines] == TYPES
    assert lines[TYPES.index("python")].startswith("python (also code)")


def test_a_page_shows_params_outputs_and_an_example():
    page = "\n".join(node_page(find_node_type("branch")))
    assert "  on: any value, required\n      The value to look at.\n" in page
    assert "  default: text, optional, taken as written\n" in page
    assert "outputs:\n  action   the chosen action\n" in page
    assert "example:\n  - id: route\n" in page
    assert "  any\n" in "\n".join(node_page(find_node_type("value")))
