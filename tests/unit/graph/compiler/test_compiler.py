import importlib
import sys
from dataclasses import FrozenInstanceError
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphmill as gm
from graphmill.core.fingerprint import changed
from graphmill.graph.graph import Graph
from graphmill.graph.secrets import Secret
from graphmill.graph.workflow import load_data
from support.compiling import compiled

names = st.sampled_from(["a", "b", "c", "item", "past", "round", "__index__", "x-y", "true", "", "a b", "é"])
texts = st.one_of(
    names.map(lambda name: f"${{{name}}}"),
    st.sampled_from(
        [
            "${a.results[0]}",
            "${round.x}",
            "${a.error}",
            "${a ?? b.x ?? 1}",
            "${",
            "$${a}",
            "${item.x} ${__index__}",
            "plain",
            "child",
            "\0",
            "a/b",
        ]
    ),
    st.text(max_size=8),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 2000), st.floats(), texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts | names, inner, max_size=3)),
    max_leaves=8,
)


def block(**keys):
    """A mapping with some of these keys, now and then with a value of any kind or a key too many."""
    usual = st.fixed_dictionaries({}, optional=keys)
    wild = st.dictionaries(st.sampled_from([*keys, "other", 5]), values, max_size=2)
    return st.one_of(usual, usual, st.builds(lambda one, two: {**one, **two}, usual, wild), values)


batches = block(
    items=texts | st.lists(values, max_size=2),
    error_handling=st.sampled_from(["continue", "fail_fast"]),
    max_retries=st.integers(0, 3),
    **{"as": names},
)
reasons = st.dictionaries(names, texts, max_size=2)
loops = block(
    max=texts | st.integers(0, 3),
    until=reasons,
    repeats=reasons,
    keep=st.dictionaries(st.just("max"), texts),
    history=names,
)
types = st.sampled_from(["value", "value", "value", "branch", "end", "code", "workflow", "nothing"])
edges = block(**{"from": names, "to": names, "action": st.sampled_from(["default", "error"])})


def workflows(children):
    params = st.one_of(
        st.dictionaries(names, values, max_size=3),
        block(on=values, cases=st.dictionaries(names, names, max_size=2), default=names),
        block(code=texts, inputs=st.dictionaries(names, values, max_size=2)),
        block(workflow=children | texts, inputs=st.dictionaries(names, values, max_size=2)),
    )
    nodes = block(id=names, type=types, params=params, batch=batches, loop=loops)
    sure = st.builds(
        lambda node, name, kind: {"id": name, "type": kind, **node} if isinstance(node, dict) else node,
        nodes,
        names,
        types,
    )
    return block(
        nodes=st.lists(sure, min_size=1, max_size=4),
        edges=st.lists(edges, max_size=4),
        inputs=st.dictionaries(
            names,
            block(type=st.sampled_from(["string", "any", "x"]), default=values, required=st.booleans()),
            max_size=2,
        ),
        outputs=st.dictionaries(names, values, max_size=2),
        start_node=names,
    )


ids = st.sampled_from(["n0", "n1", "n2", "n3"])
outputs = st.sampled_from(
    ["", "", ".x", ".results", ".results[0]", ".outcomes[${n0.i}]", ".error.message", ".best", ".action", ".x ?? 1"]
)
lookups = st.builds(
    lambda root, rest: f"${{{root}{rest}}}",
    ids | st.sampled_from(["url", "url", "item", "past", "__index__", "__round__", "no"]),
    outputs,
)
right_params = st.dictionaries(
    st.sampled_from(["x", "y", "error"]), lookups | st.lists(lookups | st.just("text ${url}"), max_size=2), max_size=2
)
right_batches = st.fixed_dictionaries(
    {"items": lookups | st.lists(lookups, max_size=2)},
    optional={"error_handling": st.just("continue"), "as": st.just("user")},
)
right_loops = st.fixed_dictionaries(
    {"max": st.integers(1, 3)},
    optional={"until": st.just({"done": "${round.x}"}), "keep": st.just({"max": "${round}"})},
)


@st.composite
def shaped(draw, levels=1):
    """A workflow of the right shape, in which the references may be wrong."""
    nodes = []
    for number in range(draw(st.integers(1, 4))):
        node = {"id": f"n{number}", "type": "value", "params": draw(right_params)}
        if levels and draw(st.integers(0, 5)) == 0:
            node |= {
                "type": "workflow",
                "params": {
                    "workflow": draw(shaped(levels - 1)),
                    "inputs": draw(st.sampled_from([{}, {"url": "${url}"}])),
                },
            }
        if draw(st.integers(0, 3)) == 0:
            node["batch"] = draw(right_batches)
        if draw(st.integers(0, 3)) == 0:
            node["loop"] = draw(right_loops)
        nodes.append(node)
    some = [f"n{number}" for number in range(len(nodes))]
    ends = st.lists(st.sampled_from(some), min_size=2, max_size=2).map(sorted)
    found = draw(
        st.none()
        | st.lists(
            st.builds(
                lambda pair, action: {"from": pair[0], "to": pair[1], "action": action},
                ends,
                st.sampled_from(["default", "error"]),
            ),
            max_size=3,
        )
    )
    return {"inputs": {"url": {"required": True}}, "nodes": nodes, "edges": found, "outputs": {"x": draw(lookups)}}


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(workflows(workflows(st.nothing())) | shaped() | shaped())
def test_whatever_is_given_is_a_graph_or_a_workflow_error_that_says_each_thing_once(data):
    try:
        found = load_data(data)
    except gm.WorkflowError as error:
        found = error
    if isinstance(found, Graph):
        assert found.fingerprints == load_data(data).fingerprints
    else:
        assert found.problems
        assert len(set(found.problems)) == len(found.problems)


def test_a_graph_names_its_file_and_holds_its_nodes_in_listed_order(tmp_path):
    graph = compiled(tmp_path, "nodes: [{id: b, type: value}, {id: a, type: value}]", "hello.yaml")
    assert (graph.name, graph.path, list(graph.nodes)) == ("hello", str(tmp_path / "hello.yaml"), ["b", "a"])
    assert load_data({"name": "x", "nodes": [{"id": "b", "type": "value"}]}).path is None


def test_a_graph_and_its_nodes_can_not_be_changed(tmp_path):
    graph = compiled(tmp_path, "inputs: {x: {}}\nnodes: [{id: a, type: value, params: {y: 1}}]\noutputs: {z: 1}")
    for mapping in (graph.nodes, graph.inputs, graph.outputs, graph.given, graph.nodes["a"].raw_params):
        with pytest.raises(TypeError):
            mapping["new"] = 1
    with pytest.raises(FrozenInstanceError):
        graph.nodes["a"].id = "b"


def node_of(**keys):
    workflow = {"nodes": [{"id": "a", "type": "value", **keys}], "inputs": {"x": {}}}
    return load_data(workflow).nodes["a"]


def test_secrets_stand_in_params_at_any_depth_and_hold_no_value(monkeypatch):
    monkeypatch.setenv("KEY", "the secret itself")
    params = {"key": {"env": "KEY"}, "deep": [{"token": {"env": "OTHER"}}, "${x}"], "again": {"env": "KEY"}}
    node = node_of(params=params)
    assert node.params.resolve({"x": 1}) == {
        "key": Secret("KEY"),
        "deep": [{"token": Secret("OTHER")}, 1],
        "again": Secret("KEY"),
    }
    assert node.raw_params == params
    assert node.secrets == ("KEY", "OTHER")
    assert "the secret itself" not in repr(node)


def test_the_params_themselves_are_no_secret():
    assert node_of(params={"env": "KEY"}).secrets == ()


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
