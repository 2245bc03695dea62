import importlib
import sys
from itertools import permutations

import pytest

from graphmill.core.fingerprint import changed
from support.compiling import compiled

WORKFLOW = """
inputs: {url: {required: true}, tone: {type: string, default: friendly}}
nodes:
  - id: fetch
    type: value
    purpose: get it
    params: {url: "${url}", deep: {a: 1, b: [1, 2]}, key: {env: KEY}}
    retry: {attempts: 2}
    timeout: 5
  - id: each
    type: value
    params: {x: "${item}"}
    batch: {items: "${fetch.deep.b}", parallel: true, max_concurrent: 5}
  - id: again
    type: value
    params: {x: 1}
    loop: {max: 3, until: {done: "${round.x}"}, timeout: 9}
  - {id: child, type: workflow, params: {workflow: child.yaml, inputs: {n: 1}}}
  - {id: judge, type: python, params: {function: "functions_of_a_graph:judge", inputs: {page: "${fetch}"}}}
outputs: {verdict: "${judge.result}"}
"""
JUDGE = '{id: judge, type: python, params: {function: "functions_of_a_graph:judge", inputs: {page: "${fetch}"}}}'
CHILD = "inputs: {n: {}}\nnodes: [{id: double, type: value, params: {text: 'twice ${n}'}}]\n"
FUNCTIONS = "def judge(page):\n    return len(page)\ndef other(page):\n    return len(page)\n"


@pytest.fixture
def prints(tmp_path, monkeypatch):
    """Write a workflow, its child and its functions; give its fingerprints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def take(workflow=WORKFLOW, *, child=CHILD, functions=FUNCTIONS, given=None):
        (tmp_path / "child.yaml").write_text(child)
        (tmp_path / "functions_of_a_graph.py").write_text(functions)
        sys.modules.pop("functions_of_a_graph", None)
        importlib.invalidate_caches()
        return compiled(tmp_path, workflow).with_inputs(given or {}).fingerprints

    yield take
    sys.modules.pop("functions_of_a_graph", None)


def test_each_part_has_a_fingerprint(prints):
    nodes = ["node 'fetch'", "node 'each'", "node 'again'", "node 'child'", "node 'judge'"]
    assert list(prints()) == [*nodes, "order", "inputs", "outputs"]
    assert prints() == prints()


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("a: 1, b: [1, 2]", "b: [1, 2],   a: 1", []),
        ("nodes:", "# a comment\nname: other\nnodes:", []),
        ("purpose: get it", "purpose: fetch it", []),
        ("retry: {attempts: 2}", "retry: {attempts: 5, wait_s: 3}", []),
        ("timeout: 5", "timeout: 50", []),
        ("parallel: true, max_concurrent: 5", "parallel: false, max_retries: 2, retry_wait: 2, timeout: 7", []),
        ("timeout: 9", "timeout: 90", []),
        ('"${fetch.deep.b}",', '"${fetch.deep.b}", as: item, error_handling: fail_fast, ordered: true,', []),
        (
            "{url: {required: true}, tone: {type: string, default: friendly}}",
            "{tone: {default: friendly, type: string}, url: {required: true}}",
            [],
        ),
        ("b: [1, 2]", "b: [2, 1]", ["node 'fetch' changed"]),
        ("a: 1", "a: 1.0", ["node 'fetch' changed"]),
        ("env: KEY", "env: OTHER", ["node 'fetch' changed"]),
        ("deep.b", "deep.a", ["node 'each' changed"]),
        ("parallel: true", "error_handling: continue", ["node 'each' changed"]),
        ("parallel: true", "ordered: false", ["node 'each' changed"]),
        ('{x: "${item}"}\n    batch: {', '{x: "${it}"}\n    batch: {as: it, ', ["node 'each' changed"]),
        ("max: 3", "max: 4", ["node 'again' changed"]),
        ("done:", "over:", ["node 'again' changed"]),
        ("timeout: 9", "on_error: keep", ["node 'again' changed"]),
        ("timeout: 9", 'keep: {max: "${round.x}"}', ["node 'again' changed"]),
        ("timeout: 9", "budget_usd: 1", ["node 'again' changed"]),
        ("loop: {max: 3,", "loop: {history: before, max: 3,", ["node 'again' changed"]),
        ("n: 1", "n: 2", ["node 'child' changed"]),
        (":judge", ":other", ["node 'judge' changed"]),
        ("a: 1", "a: '1'", ["node 'fetch' changed"]),
        (JUDGE, '{id: judge, type: value, params: {result: "${fetch}"}}', ["node 'judge' changed"]),
        ("type: python", "type: code", []),
        ("friendly", "brisk", ["inputs changed"]),
        ("type: string, ", "", ["inputs changed"]),
        ("{required: true}", "{}", ["inputs changed"]),
        ("{required: true}", "{required: true, description: where}", []),
        ("verdict:", "grade:", ["outputs changed"]),
        ('outputs: {verdict: "${judge.result}"}', "outputs: {}", ["outputs changed"]),
        ("  - {id: judge", "  - {id: more, type: value}\n  - {id: judge", ["node 'more' is new"]),
    ],
)
def test_what_a_person_changes_is_named_and_what_means_the_same_is_no_change(prints, old, new, lines):
    text = WORKFLOW.replace(old, new)
    assert text != WORKFLOW
    assert changed(prints(), prints(text)) == lines


def test_the_code_of_a_node_counts_and_its_comments_do_not(prints):
    assert (
        changed(
            prints(), prints(functions=FUNCTIONS.replace("judge(page):", 'judge(page):  # a page\n    """Judge."""'))
        )
        == []
    )
    assert changed(prints(), prints(functions=FUNCTIONS.replace("len(page)", "len(page) + 1", 1))) == [
        "node 'judge' changed"
    ]


def test_a_child_counts_by_what_it_does_not_by_where_it_stands(prints):
    inline = "{inputs: {n: {}}, nodes: [{id: double, type: value, params: {text: 'twice ${n}'}}]}"
    assert changed(prints(), prints(WORKFLOW.replace("workflow: child.yaml", f"workflow: {inline}"))) == []
    assert changed(prints(), prints(child=CHILD.replace("nodes", "# it doubles\nnodes"))) == []
    assert changed(prints(), prints(child=CHILD.replace("twice", "2 times"))) == ["node 'child' changed"]
    assert changed(prints(), prints(child=CHILD + "outputs: {x: 1}")) == ["node 'child' changed"]


def test_given_inputs_count_and_may_be_anything(prints):
    assert changed(prints(), prints(given={"tone": "brisk"})) == ["inputs changed"]
    assert changed(prints(given={"url": object()}), prints(given={"url": object()})) == []


def test_a_node_that_is_left_out_is_gone_and_one_that_is_renamed_is_both(prints):
    text = WORKFLOW.replace("judge.result", "fetch.url")
    without = "\n".join(line for line in text.splitlines() if "id: judge" not in line)
    assert changed(prints(text), prints(without)) == ["node 'judge' is gone"]
    renamed = WORKFLOW.replace("id: judge", "id: jury").replace("judge.result", "jury.result")
    assert changed(prints(), prints(renamed)) == ["outputs changed", "node 'jury' is new", "node 'judge' is gone"]


def test_the_order_of_a_plain_list_is_part_of_it(tmp_path):
    lines = ["- {id: a, type: value}", "- {id: b, type: value}", "- {id: c, type: value}"]
    orders = [compiled(tmp_path, "nodes:\n" + "\n".join(order)).fingerprints for order in permutations(lines)]
    assert len({parts["order"] for parts in orders}) == 6
    assert changed(orders[0], orders[1]) == ["the order of the nodes changed"]


def test_the_order_is_that_of_the_edges(tmp_path):
    nodes = "nodes: [{id: a, type: value}, {id: b, type: value}, {id: c, type: value}]\noutputs: {}\n"
    chain = compiled(tmp_path, nodes + "edges: [{from: a, to: b}, {from: b, to: c}]").fingerprints
    assert compiled(tmp_path, nodes + "edges: [{from: b, to: c}, {from: a, to: b}]").fingerprints == chain
    whatever_the_action = compiled(tmp_path, nodes).fingerprints
    assert changed(chain, whatever_the_action) == ["the order of the nodes changed"]
    other = compiled(tmp_path, nodes + "edges: [{from: a, to: b}, {from: a, to: c}]").fingerprints
    assert changed(chain, other) == ["the order of the nodes changed"]
    on_error = compiled(tmp_path, nodes + "edges: [{from: b, to: c, action: error}, {from: a, to: b}]").fingerprints
    assert changed(chain, on_error) == ["the order of the nodes changed"]
