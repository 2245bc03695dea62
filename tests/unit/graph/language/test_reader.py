from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmill as gm
from graphmill.graph.language import grammar
from graphmill.graph.language.document import Document
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.reader import read_spec
from graphmill.graph.language.spec import BatchSpec, EdgeSpec, InputSpec, LoopSpec, NodeSpec, RetrySpec


def read(data):
    """Read a workflow that is right; give its spec."""
    document = Document.from_data(data)
    problems = Problems(document)
    spec = read_spec(document, problems=problems)
    problems.raise_if_any()
    assert spec is not None
    return spec


def notes_of(data):
    document = Document.from_data(data)
    problems = Problems(document)
    assert read_spec(document, problems=problems) is not None
    assert problems.found == []
    return [note.message for note in problems.notes]


def problems_in(data):
    document = Document.from_data(data)
    problems = Problems(document)
    read_spec(document, problems=problems)
    return [problem.message for problem in problems.found]


def lines_of(folder, text, name="flow.yaml"):
    """Give what is wrong with a file, as it is printed, without the folder."""
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    with pytest.raises(gm.WorkflowError) as caught:
        document = Document.read(path)
        problems = Problems(document)
        read_spec(document, problems=problems)
        problems.raise_if_any()
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def node(**keys):
    return {"nodes": [{"id": "n", "type": "value", **keys}]}


def batch(**keys):
    return node(batch={"items": "${in}", **keys})


def loop(**keys):
    return node(loop={"max": 3, **keys})


# --- what is right ---


def test_what_is_left_out_is_as_the_table_says():
    spec = read({"nodes": [{"id": "n", "type": "value", "batch": {"items": [1]}, "loop": {"max": 2}}]})
    assert (spec.at, spec.name, spec.inputs, spec.edges, spec.outputs, spec.start_node) == (
        (),
        "workflow",
        (),
        None,
        None,
        None,
    )
    assert spec.nodes == (
        NodeSpec(
            at=("nodes", 0),
            id="n",
            type="value",
            params={},
            retry=RetrySpec(attempts=None, wait_s=None, backoff=None, cap_s=None),
            timeout_s=None,
            effect=None,
            on_ambiguous="dead_letter",
            batch=BatchSpec(
                at=("nodes", 0, "batch"),
                items=[1],
                times=None,
                alias="item",
                error_handling="fail_fast",
                is_parallel=False,
                max_concurrent=10,
                max_retries=None,
                retry_wait_s=None,
                timeout_s=None,
                max_failures=None,
                is_ordered=True,
            ),
            loop=LoopSpec(
                at=("nodes", 0, "loop"),
                max=2,
                until={},
                repeats={},
                similarity=0.9,
                keep=None,
                history="past",
                timeout_s=None,
                budget_usd=None,
                on_error="fail",
            ),
        ),
    )


def test_every_key_is_read():
    spec = read(
        {
            "name": "all",
            "description": "what it does",
            "inputs": {
                "url": {"type": "string", "required": True, "description": "where"},
                "tone": {"type": "any", "default": "kind"},
                "nothing": {"default": None},
                "free": {},
            },
            "nodes": [
                {
                    "id": "a-1",
                    "type": "llm",
                    "purpose": "asks",
                    "params": {"x": [1]},
                    "retry": {"attempts": 5, "wait_s": 0.5, "backoff": "linear", "cap_s": 10},
                    "timeout": 30,
                    "effect": "unsafe",
                    "on_ambiguous": "retry",
                    "batch": {
                        "items": "${url.list}\n",
                        "as": "user",
                        "error_handling": "continue",
                        "parallel": True,
                        "max_concurrent": 1000,
                        "max_retries": 10,
                        "retry_wait": 0,
                        "timeout": 1.5,
                        "max_failures": "12.5%",
                        "ordered": False,
                    },
                    "loop": {
                        "max": "${n}",
                        "until": {"passed": "${round.ok}"},
                        "repeats": {"circular": "${round.text}"},
                        "similarity": 1,
                        "keep": {"min": "${round.cost}"},
                        "history": "before",
                        "timeout": 60,
                        "budget_usd": 0.5,
                        "on_error": "keep",
                    },
                },
                {"id": "b", "type": "value"},
            ],
            "edges": [{"from": "a-1", "to": "b", "action": "error"}, {"from": "a-1", "to": "b"}],
            "start_node": "a-1",
            "outputs": {"x": "${b.x}", "y": {"source": 1}},
        }
    )
    first = spec.nodes[0]
    assert spec.name == "all"
    assert spec.inputs[:2] == (
        InputSpec(at=("inputs", "url"), name="url", type="string", is_required=True, default=None, description="where"),
        InputSpec(at=("inputs", "tone"), name="tone", type=None, is_required=False, default="kind", description=""),
    )
    assert [(each.default, each.is_required) for each in spec.inputs[2:]] == [(None, False), (None, False)]
    assert first.retry == RetrySpec(attempts=5, wait_s=0.5, backoff="linear", cap_s=10)
    assert (first.params, first.timeout_s, first.effect, first.on_ambiguous) == ({"x": [1]}, 30, "unsafe", "retry")
    assert (first.batch.items, first.batch.alias, first.batch.max_failures, first.batch.timeout_s) == (
        "${url.list}\n",
        "user",
        0.125,
        1.5,
    )
    assert (first.batch.is_parallel, first.batch.is_ordered, first.batch.max_concurrent) == (True, False, 1000)
    assert (first.batch.max_retries, first.batch.retry_wait_s, first.batch.error_handling) == (10, 0, "continue")
    assert (first.loop.max, first.loop.until, first.loop.repeats) == (
        "${n}",
        {"passed": "${round.ok}"},
        {"circular": "${round.text}"},
    )
    assert (first.loop.similarity, first.loop.keep, first.loop.history) == (1, ("min", "${round.cost}"), "before")
    assert (first.loop.timeout_s, first.loop.budget_usd, first.loop.on_error) == (60, 0.5, "keep")
    assert spec.edges == (
        EdgeSpec(at=("edges", 0), source="a-1", target="b", action="error"),
        EdgeSpec(at=("edges", 1), source="a-1", target="b", action="default"),
    )
    assert (spec.start_node, spec.outputs) == ("a-1", {"x": "${b.x}", "y": {"source": 1}})


@pytest.mark.parametrize(
    ("written", "read_as"),
    [(0, 0), (7, 7), (0.1, 0.1), (1.0, 1.0), ("10%", 0.1), ("100 %", 1.0), ("0.5%", 0.005), (None, None)],
)
def test_failures_are_borne_by_count_or_by_share(written, read_as):
    found = read(batch(error_handling="continue", max_failures=written)).nodes[0].batch.max_failures
    assert (found, type(found)) == (read_as, type(read_as))


def test_null_is_as_good_as_left_out():
    spec = read(node(params=None, batch=None, loop=None, retry=None, timeout=None, effect=None, on_ambiguous=None))
    assert spec.nodes == read(node()).nodes


def test_an_empty_list_of_edges_is_no_edges():
    assert read({**node(), "edges": []}).edges is None


def test_a_required_input_with_a_default_may_be_left_out():
    (found,) = read({**node(), "inputs": {"a": {"required": True, "default": 1}}}).inputs
    assert (found.is_required, found.default) == (False, 1)


def test_the_name_is_that_of_the_file_where_none_is_written(tmp_path):
    path = tmp_path / "my flow.yml"
    path.write_text("nodes: [{id: a, type: value}]")
    document = Document.read(path)
    assert read_spec(document, problems=Problems(document)).name == "my flow"


def test_a_workflow_inside_another_is_read_where_it_stands():
    document = Document.from_data(node(params={"workflow": {"nodes": [{"id": "inner", "type": "value", "batch": {}}]}}))
    problems = Problems(document)
    at = ("nodes", 0, "params", "workflow")
    spec = read_spec(document, at, problems=problems)
    assert spec.at == at
    assert spec.nodes[0].at == (*at, "nodes", 0)
    assert [problem.message for problem in problems.found] == [
        "node 'n': params.workflow: node 'inner': batch: 'items' is missing; to repeat the node, write times"
    ]


# --- what is wrong ---


def test_all_problems_of_a_file_are_told_at_once_each_with_its_place(tmp_path):
    text = """\
        nmae: typo
        inputs:
          url: {required: true, defualt: 1}
          bad name: {}
          n: {type: str, default: 1}
          bare:
        nodes:
          - {id: first, type: valu, params: {}}
          - id: second
            type: value
            parms: {}
            batch:
              items: abc
              max_concurrent: true
              as: my-item
          - {type: value}
          - just text
          - {id: größe, type: llm, loop: {max: 0, until: {a: b}, keep: {best: 1}}}
        edges: [{form: a, to: b}]
        outputs: [x]
        """
    name = "a name of letters, digits and _ that starts with a letter or _"
    keys = "id, type, purpose, params, retry, timeout, effect, on_ambiguous, batch, loop"
    assert lines_of(tmp_path, text) == [
        f"flow.yaml:1:1: workflow: unknown key 'nmae' (did you mean 'name'?); known keys: {', '.join(grammar.WORKFLOW)}",
        "flow.yaml:3:25: input 'url': unknown key 'defualt' (did you mean 'default'?); known keys: type, required, default, description",
        "flow.yaml:4:3: input 'bad name': must be a name of letters, digits, _ and - that starts with a letter or _",
        (
            "flow.yaml:5:13: input 'n': type must be one of string, number, integer, boolean, array, object, any"
            ", got 'str' (did you mean 'string'?)"
        ),
        "flow.yaml:6:8: input 'bare': must be {required: true} or {default: …}, got nothing",
        f"flow.yaml:11:5: node 'second': unknown key 'parms' (did you mean 'params'?); known keys: {keys}",
        "flow.yaml:13:14: node 'second': batch: items must be one ${…} reference or a list, got 'abc'",
        "flow.yaml:14:23: node 'second': batch: max_concurrent must be an integer from 1 to 1000, got true",
        f"flow.yaml:15:11: node 'second': batch: as must be {name}, got 'my-item'",
        "flow.yaml:16:5: node 3 in the list: 'id' is missing",
        "flow.yaml:17:5: node 4 in the list: must be a mapping with id, type and params, got 'just text'",
        "flow.yaml:18:40: node 'größe': loop: max must be an integer from 1 to 1000 or one ${…} reference, got 0",
        "flow.yaml:18:54: node 'größe': loop: until: 'a' must be one ${…} reference, got 'b'",
        "flow.yaml:18:64: node 'größe': loop: keep must be either {max: reference} or {min: reference}, or a list of references",
        "flow.yaml:19:9: edge 1 in the list: 'from' is missing",
        "flow.yaml:19:10: edge 1 in the list: unknown key 'form' (did you mean 'from'?); known keys: from, to, action",
        "flow.yaml:20:10: workflow: outputs must be a mapping of names to values, got a list",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "1:1: a workflow must be a mapping with a list of nodes, got nothing"),
        ("# only a comment", "1:1: a workflow must be a mapping with a list of nodes, got nothing"),
        ("- a", "1:1: a workflow must be a mapping with a list of nodes, got a list"),
        ("just text", "1:1: a workflow must be a mapping with a list of nodes, got 'just text'"),
        ("5", "1:1: a workflow must be a mapping with a list of nodes, got 5"),
        ("name: x", "1:1: workflow: 'nodes' is missing"),
        ("name: x\nnodes:", "2:7: workflow: 'nodes' is missing"),
        ("nodes: []", "1:8: workflow: nodes must be a list of at least one node, got an empty list"),
        ("nodes: {a: 1}", "1:8: workflow: nodes must be a list of at least one node, got a mapping"),
    ],
)
def test_a_file_that_is_no_workflow_is_told_in_one_line(tmp_path, text, line):
    assert lines_of(tmp_path, text) == [f"flow.yaml:{line}"]


def test_json_files_have_places_too(tmp_path):
    text = '{"nodes": [\n  {"id": "a", "type": "value",\n   "batch": {"item": []}}\n]}'
    missing, unknown = lines_of(tmp_path, text, "flow.json")
    assert missing.startswith("flow.json:3:13: node 'a': batch: 'items' is missing")
    assert unknown.startswith("flow.json:3:14: node 'a': batch: unknown key 'item' (did you mean 'items'?)")


NAME = "a name of letters, digits, _ and - that starts with a letter or _"
SHARE = 'an integer >= 0, or a share > 0 and <= 1, such as 0.1 or "10%"'
CONTINUED = {"error_handling": "continue"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({**node(), "name": 5}, "workflow: name must be text, got 5"),
        (
            {**node(), "inputs": ["a"]},
            "workflow: inputs must be a mapping of names to {required: true} or {default: …}, got a list",
        ),
        ({**node(), "edges": {"a": "b"}}, "workflow: edges must be a list of {from: …, to: …}, got a mapping"),
        ({**node(), "edges": ["a"]}, "edge 1 in the list: must be a mapping with from and to, got 'a'"),
        ({**node(), "edges": [{"from": "a", "to": 7}]}, f"edge 1 in the list: to must be {NAME}, got 7"),
        ({**node(), "start_node": ["n"]}, f"workflow: start_node must be {NAME}, got a list"),
        ({**node(), "outputs": "${n}"}, "workflow: outputs must be a mapping of names to values, got '${n}'"),
        ({**node(), "outputs": {1: "${n}"}}, "outputs: a name must be text, got 1"),
        ({**node(), 1: 2}, "workflow: a key must be text, got 1"),
        ({**node(), "inputs": {"a": {"required": 1}}}, "input 'a': required must be true or false, got 1"),
        (
            {**node(), "inputs": {"a": {"type": "number", "default": True}}},
            "input 'a': the default must be of type number, got true",
        ),
        (
            {**node(), "inputs": {"a": {"type": "integer", "default": 1.5}}},
            "input 'a': the default must be of type integer, got 1.5",
        ),
        (
            {**node(), "inputs": {5: {}}},
            "input 5: must be a name of letters, digits, _ and - that starts with a letter or _",
        ),
        ({"nodes": [{"id": None, "type": "value"}]}, "node 1 in the list: 'id' is missing"),
        ({"nodes": [{"id": 5, "type": "value"}]}, f"node 5: id must be {NAME}, got 5"),
        ({"nodes": [{"id": "a.b", "type": "value"}]}, f"node 'a.b': id must be {NAME}, got 'a.b'"),
        ({"nodes": [{"id": "a\n", "type": "value"}]}, f"node 'a\\n': id must be {NAME}, got 'a\\n'"),
        ({"nodes": [{"id": "a", "type": ["value"]}]}, "node 'a': type must be text, got a list"),
        ({"nodes": [None]}, "node 1 in the list: must be a mapping with id, type and params, got nothing"),
        (node(params=[1]), "node 'n': params must be a mapping, got a list"),
        (node(timeout=0), "node 'n': timeout must be a number of seconds > 0, got 0"),
        (node(timeout=float("nan")), "node 'n': timeout must be a number of seconds > 0, got nan"),
        (node(timeout=10**5000), "node 'n': timeout must be a number of seconds > 0, got a very large number"),
        (
            node(effect="safe"),
            "node 'n': effect must be one of repeatable, unsafe, got 'safe' (did you mean 'unsafe'?)",
        ),
        (node(on_ambiguous="fail"), "node 'n': on_ambiguous must be one of dead_letter, retry, got 'fail'"),
        (node(retry=3), "node 'n': retry must be a mapping, got 3"),
        (node(retry={"attempts": 0}), "node 'n': retry: attempts must be an integer >= 1, got 0"),
        (
            node(retry={"backoff": "exp"}),
            "node 'n': retry: backoff must be one of fixed, linear, exponential, got 'exp'",
        ),
        (
            node(retry={"wait_s": 10, "cap_s": 5}),
            "node 'n': retry: cap_s (5) is less than wait_s (10); raise the cap or shorten the wait",
        ),
        (batch(times=2), "node 'n': batch: a batch has either items or times, not both; remove one"),
        (
            batch(items=None, times=-1),
            "node 'n': batch: times must be an integer from 0 to 1000000 or one ${…} reference, got -1",
        ),
        (batch(items=None), "node 'n': batch: 'items' is missing; to repeat the node, write times"),
        (batch(items="${a} ${b"), "node 'n': batch: items must be one ${…} reference or a list, got '${a} ${b'"),
        (batch(items={"a": 1}), "node 'n': batch: items must be one ${…} reference or a list, got a mapping"),
        (
            batch(error_handling="Continue"),
            "node 'n': batch: error_handling must be one of fail_fast, continue, got 'Continue' (did you mean 'continue'?)",
        ),
        (batch(parallel="true"), "node 'n': batch: parallel must be true or false, got 'true'"),
        (batch(max_concurrent=0), "node 'n': batch: max_concurrent must be an integer from 1 to 1000, got 0"),
        (batch(max_retries=11), "node 'n': batch: max_retries must be an integer from 1 to 10, got 11"),
        (batch(retry_wait=-0.5), "node 'n': batch: retry_wait must be a number of seconds >= 0, got -0.5"),
        (batch(timeout=False), "node 'n': batch: timeout must be a number of seconds > 0, got false"),
        (batch(**CONTINUED, max_failures=-1), f"node 'n': batch: max_failures must be {SHARE}, got -1"),
        (batch(**CONTINUED, max_failures="0%"), f"node 'n': batch: max_failures must be {SHARE}, got '0%'"),
        (batch(**CONTINUED, max_failures=True), f"node 'n': batch: max_failures must be {SHARE}, got true"),
        (
            batch(max_failures=3),
            "node 'n': batch: max_failures needs error_handling: continue; add it, or remove max_failures",
        ),
        (node(loop={}), "node 'n': loop: 'max' is missing"),
        (loop(max=1001), "node 'n': loop: max must be an integer from 1 to 1000 or one ${…} reference, got 1001"),
        (
            loop(until="${round.x}"),
            "node 'n': loop: until must be a mapping of reasons to references, got '${round.x}'",
        ),
        (loop(repeats={"a": 1}), "node 'n': loop: repeats: 'a' must be one ${…} reference, got 1"),
        (loop(similarity=0), "node 'n': loop: similarity must be a number > 0 and <= 1, got 0"),
        (
            loop(keep={"max": "${a}", "min": "${b}"}),
            "node 'n': loop: keep must be either {max: reference} or {min: reference}, or a list of references",
        ),
        (loop(budget_usd=0), "node 'n': loop: budget_usd must be an amount > 0 or one ${…} reference, got 0"),
        (loop(on_error="stop"), "node 'n': loop: on_error must be one of fail, keep, got 'stop'"),
        (
            loop(history="my past"),
            "node 'n': loop: history must be a name of letters, digits and _ that starts with a letter or _, got 'my past'",
        ),
    ],
)
def test_a_mistake_is_told_with_what_would_be_right(data, problem):
    assert problems_in(data) == [problem]


@pytest.mark.parametrize("data", [None, [], "x", {}, {"nodes": []}])
def test_there_is_no_spec_without_nodes(data):
    document = Document.from_data(data)
    assert read_spec(document, problems=Problems(document)) is None


@pytest.mark.parametrize(
    "part",
    [
        {"nodes": [{"id": "a"}, {"id": "n", "type": "value"}]},
        {"inputs": {"a b": {}}},
        {"edges": [{"from": "n"}, {"from": "n", "to": "n"}]},
    ],
)
def test_a_part_that_can_not_be_read_is_left_out_and_the_spec_is_not_whole(part):
    document = Document.from_data({**node(), **part})
    spec = read_spec(document, problems=Problems(document))
    assert ([each.id for each in spec.nodes], spec.inputs, len(spec.edges or ())) == (
        ["n"],
        (),
        len(part.get("edges", [0])) - 1,
    )
    assert not spec.is_whole


def test_where_a_mistake_can_be_passed_over_the_rest_is_given_for_later_checks():
    document = Document.from_data({**node(parms={}, batch={"itms": 1, "as": "user", "max_concurrent": 0}), "x": 1})
    problems = Problems(document)
    spec = read_spec(document, problems=problems)
    assert len(problems.found) == 5
    assert (spec.nodes[0].batch.alias, spec.nodes[0].batch.items, spec.nodes[0].batch.max_concurrent) == (
        "user",
        [],
        10,
    )


# --- whatever comes ---

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["${a}", "10%", "continue", "n"])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
BLOCKS = {"batch": grammar.BATCH, "loop": grammar.LOOP, "retry": grammar.RETRY}


def block(table, **inner):
    return st.fixed_dictionaries({}, optional={key: inner.get(key, anything) | anything for key in table}) | anything


nodes = block(
    grammar.NODE, **{key: block(table) for key, table in BLOCKS.items()}, id=st.just("n"), type=st.just("value")
)
workflows = block(
    [*grammar.WORKFLOW, "ir", "mappings"],
    nodes=st.lists(nodes, max_size=3),
    edges=st.lists(block([*grammar.EDGE, "source"]), max_size=3),
    inputs=st.dictionaries(st.text(max_size=3), block(grammar.INPUT), max_size=3),
    outputs=st.dictionaries(st.text(max_size=3), block(["source", "description"]), max_size=3),
    ir=block(grammar.WORKFLOW),
)


@settings(max_examples=300)
@given(workflows)
def test_any_data_is_a_spec_or_problems_and_never_an_exception(data):
    document = Document.from_data(data)
    problems = Problems(document)
    spec = read_spec(document, problems=problems)
    assert spec is not None or problems.found
    assert all(problem.message.isprintable() for problem in problems.found)
