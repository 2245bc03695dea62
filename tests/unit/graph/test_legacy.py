from pathlib import Path

import pytest

from graphmill.graph import legacy
from graphmill.graph.legacy import NO_TIMEOUT_S, NODE
from graphmill.graph.spec import RetrySpec
from unit.graph.test_spec_reader import notes_of, problems_in, read

OLD = {
    "ir_version": "0.1.0",
    "inputs": {
        "url": {"type": "string", "description": "where"},
        "limit": {"type": "number", "required": False, "default": 10},
        "tag": {"required": False},
    },
    "nodes": [
        {"id": "fetch", "type": "http", "purpose": "Fetch the users", "params": {"url": "${url}"}},
        {
            "id": "greet",
            "type": "shell",
            "batch": {"items": "${fetch.response}", "as": "user"},
            "params": {"command": "echo"},
        },
    ],
    "edges": [{"from": "fetch", "to": "greet"}],
    "outputs": {
        "greetings": {"source": "${greet.results}", "description": "all of them", "type": "array"},
        "bare": {"source": "greet.count"},
        "text": "${greet.count}",
    },
}


def old(**keys):
    return {**OLD, **keys}


def old_node(**keys):
    return old(nodes=[{"id": "n", "type": "llm", **keys}], edges=[], outputs={})


def test_a_workflow_of_the_older_form_loads_as_it_is_and_without_a_note():
    spec = read(OLD)
    assert spec.outputs == {"greetings": "${greet.results}", "bare": "${greet.count}", "text": "${greet.count}"}
    assert [(each.name, each.is_required, each.default) for each in spec.inputs] == [
        ("url", True, None),
        ("limit", False, 10),
        ("tag", False, None),
    ]
    assert notes_of(OLD) == []


def test_its_batches_have_the_older_defaults_and_other_nodes_ours():
    fetch, greet = read(OLD).nodes
    assert (greet.batch.max_retries, greet.batch.retry_wait_s, greet.batch.timeout_s) == (1, 0, NO_TIMEOUT_S)
    assert greet.retry == RetrySpec(backoff="fixed")
    assert (fetch.retry, fetch.timeout_s) == (RetrySpec(), None)


def test_what_a_batch_or_its_node_says_goes_before_the_older_defaults():
    said = {"items": [1], "max_retries": 3, "retry_wait": 2, "timeout": 5}
    batch = read(old_node(batch=said)).nodes[0].batch
    assert (batch.max_retries, batch.retry_wait_s, batch.timeout_s) == (3, 2, 5)
    (node,) = read(
        old_node(batch={"items": [1]}, retry={"max": 4, "wait": 1, "backoff": "exponential"}, timeout=9)
    ).nodes
    assert (node.batch.max_retries, node.batch.retry_wait_s, node.batch.timeout_s) == (None, None, None)
    assert (node.retry, node.timeout_s) == (RetrySpec(attempts=4, wait_s=1, backoff="exponential"), 9)


def test_other_names_for_the_same_key_are_read():
    spec = read(
        old(
            nodes=[{"id": "a", "type": "x", "parameters": {"p": 1}}, {"id": "b", "type": "x"}],
            edges=[{"source": "a", "target": "b"}],
            outputs={},
        )
    )
    assert spec.nodes[0].params == {"p": 1}
    assert (spec.edges[0].source, spec.edges[0].target) == ("a", "b")
    assert problems_in(old_node(parameters=[1])) == ["node 'n': parameters is a mapping, not a list"]
    assert problems_in({"nodes": [{"id": "n", "type": "x", "parameters": {}}]})[0].startswith(
        "node 'n': unknown key 'parameters'"
    )


def test_a_workflow_that_was_saved_with_words_about_it_is_read_inside():
    saved = {
        "name": "saved",
        "description": "words",
        "ir": OLD,
        "created_at": "2025",
        "version": "1.0.0",
        "rich_metadata": {},
    }
    spec = read(saved)
    assert (spec.name, spec.at, spec.nodes[0].at) == ("saved", ("ir",), ("ir", "nodes", 0))


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (
            old(mappings={}),
            "workflow: mappings: mappings do nothing here: a node reads what another wrote by ${node.output}",
        ),
        (old(cache={"items": []}), "workflow: cache: a prompt cache is not declared here; it is left to the provider"),
        (
            old(enable_namespacing=False),
            "workflow: enable_namespacing: a node always writes under its own id here; read it by ${node.output}",
        ),
        (
            old(template_resolution_mode="permissive"),
            "workflow: template_resolution_mode: a missing reference always fails the job here, as in strict mode",
        ),
        (
            old(inputs={"a": {"stdin": True, "required": False}}),
            "input 'a': stdin: what is piped in is not bound to an input here; give the input a value like any other",
        ),
        (
            old(inputs={"a": {"default": 1}}),
            "input 'a' may be left out, as it has a default; there it was required all the same",
        ),
        (
            old(outputs={"a": {"source": "${greet.count}", "stdout": True}}),
            "output 'a': stdout: all outputs are printed here, not one of them",
        ),
        (
            old_node(cache=True),
            "node 'n': cache: finished steps are found in the journal here; a node has no cache of its own",
        ),
        (old_node(prewarm=True), "node 'n': prewarm: a prompt cache is left to the provider here"),
        (old(edges=[]), "without edges all nodes run in listed order here; there only the first ran"),
        (
            old(nodes=[*OLD["nodes"], {"id": "other", "type": "x"}]),
            "node 'other' starts too, as no edge leads to it; there only the first node started",
        ),
        (
            old(nodes=[*OLD["nodes"], {"id": "c", "type": "x"}], edges=[*OLD["edges"], {"from": "fetch", "to": "c"}]),
            "all edges of node 'fetch' with action 'default' are taken, side by side; there only the last was",
        ),
        (
            {"nodes": OLD["nodes"], "outputs": {"a": {"source": "${greet.count}", "description": "words"}}},
            "output 'a' is a mapping with a source in it; with ir_version: 0.1.0 it would be the source's value alone",
        ),
    ],
)
def test_where_a_meaning_differs_a_note_says_so(data, note):
    assert notes_of(data) == [note]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            old_node(approval="required"),
            f"node 'n': approval: {NODE.refused['approval']}",
        ),
        (
            old_node(loop={"while": "${n.more}", "max_iterations": 3}),
            "node 'n': loop: while: here a loop ends when a reference is truthy: until: {reason: ${round.field}}",
        ),
        (old(outputs={"a": {"description": "words"}}), "output 'a': 'source' is missing"),
        (
            old_node(loop={"max_iterations": 0}),
            "node 'n': loop: max_iterations is a whole number from 1 to 1000 or one ${…} reference, not 0",
        ),
        (old(ir_version=1), "workflow: ir_version is text, not 1"),
    ],
)
def test_what_can_not_be_done_here_is_a_problem_and_not_passed_over(data, problem):
    assert problems_in(data) == [problem]


def test_what_tools_of_the_older_form_write_for_themselves_is_passed_over():
    assert notes_of(old_node(_source_line=3, _source_files={})) == []


def test_the_page_of_differences_names_every_key_that_is_read_in_another_way():
    page = (Path(__file__).parents[3] / "docs" / "differences.md").read_text()
    dialects = (legacy.WORKFLOW, legacy.INPUT, legacy.OUTPUT, legacy.NODE, legacy.EDGE, legacy.RETRY, legacy.LOOP)
    keys = {
        key for dialect in dialects for table in (dialect.renamed, dialect.ignored, dialect.refused) for key in table
    }
    assert [key for key in sorted(keys | legacy.SAVED) if f"`{key}`" not in page] == []
