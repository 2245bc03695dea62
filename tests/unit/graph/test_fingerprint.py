import functools
import importlib
import sys
from collections.abc import Mapping
from itertools import permutations

import pytest

import graphmill as gm
from graphmill.core.changes import changed
from graphmill.core.fingerprint import function_fingerprint
from graphmill.graph.fingerprint import graph_fingerprints
from graphmill.graph.node import _entries, code_fingerprint, node_types
from support.workflows import load_workflow

WORKFLOW = """
inputs: {url: {required: true}, tone: {default: friendly}}
nodes:
  - {id: fetch, type: value, params: {url: "${url}", deep: {a: 1, b: [1, 2]}}}
  - {id: judge, type: python, params: {function: "functions_of_a_fingerprint:judge", inputs: {page: "${fetch}"}}}
outputs: {verdict: "${judge.result}"}
"""
FUNCTIONS = "def judge(page):\n    return len(page)\ndef other(page):\n    return len(page)\n"


@pytest.fixture
def prints(tmp_path, monkeypatch):
    """Write a workflow and its functions; give its fingerprints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def take(workflow=WORKFLOW, functions=FUNCTIONS, given=None, **options):
        (tmp_path / "functions_of_a_fingerprint.py").write_text(functions)
        sys.modules.pop("functions_of_a_fingerprint", None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            return graph_fingerprints(load_workflow(tmp_path, workflow).with_inputs(given or {}), **options)
        finally:
            sys.dont_write_bytecode = before

    yield take
    sys.modules.pop("functions_of_a_fingerprint", None)


def test_each_part_of_a_workflow_has_a_fingerprint(prints):
    assert list(prints()) == ["node 'fetch'", "node 'judge'", "order", "inputs", "outputs"]
    assert prints() == prints()


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("a: 1, b: [1, 2]", "b: [1, 2],   a: 1", []),
        ("nodes:", "# a comment\nname: other\nnodes:", []),
        ("inputs: {url: {required: true}, tone: {default: friendly}}", "inputs: {tone: {default: friendly}, url: {required: true}}", []),
        ("b: [1, 2]", "b: [2, 1]", ["node 'fetch' changed"]),
        ("a: 1", "a: 1.0", ["node 'fetch' changed"]),
        ("a: 1", "a: '1'", ["node 'fetch' changed"]),
        (":judge", ":other", ["node 'judge' changed"]),
        ("friendly", "brisk", ["inputs changed"]),
        ("{required: true}", "{}", ["inputs changed"]),
        ("verdict:", "grade:", ["outputs changed"]),
        ('outputs: {verdict: "${judge.result}"}', "", ["outputs changed"]),
        ("- {id: judge", "- {id: more, type: value}\n  - {id: judge", ["node 'more' is new"]),
        ("type: python", "type: value", ["node 'judge' changed"]),
    ],
)
def test_what_a_person_changes_is_named_and_what_means_the_same_is_no_change(prints, old, new, lines):
    text = WORKFLOW.replace(old, new)
    assert text != WORKFLOW
    assert changed(prints(), prints(text)) == lines


def test_a_node_that_is_left_out_is_gone_and_one_that_is_renamed_is_both(prints):
    text = WORKFLOW.replace("outputs: {verdict", "outputs: {x").replace("judge.result", "fetch.url").splitlines()
    assert changed(prints(), prints("\n".join(line for line in text if "id: judge" not in line))) == [
        "outputs changed",
        "node 'judge' is gone",
    ]
    assert changed(prints(), prints(WORKFLOW.replace("id: judge", "id: jury").replace("judge.result", "jury.result"))) == [
        "outputs changed",
        "node 'jury' is new",
        "node 'judge' is gone",
    ]


def test_the_order_of_the_nodes_is_part_of_it(prints):
    lines = ["- {id: a, type: value}", "- {id: b, type: value}", "- {id: c, type: value}"]
    orders = [prints("nodes:\n" + "\n".join(order)) for order in permutations(lines)]
    assert len({parts["order"] for parts in orders}) == 6
    assert changed(orders[0], orders[1]) == ["the order of the nodes changed"]


def test_the_code_of_a_python_node_counts_and_its_comments_do_not(prints):
    assert changed(prints(), prints(functions=FUNCTIONS.replace("judge(page):", 'judge(page):  # a page\n    """Judge."""'))) == []
    assert changed(prints(), prints(functions=FUNCTIONS.replace("len(page)", "len(page) + 1", 1))) == ["node 'judge' changed"]


def test_given_inputs_count_and_may_be_anything(prints):
    assert changed(prints(), prints(given={"tone": "brisk"})) == ["inputs changed"]
    assert changed(prints(given={"tone": object()}), prints(given={"tone": object()})) == []


def test_the_author_s_version_is_a_part_of_its_own(prints):
    assert changed(prints(version="1"), prints(version="2")) == ["version changed"]
    assert changed(prints(), prints(version="2")) == ["version is new"]


# --- functions ---


def test_a_function_has_one_fingerprint_under_its_name():
    assert graph_fingerprints(changed) == {"function changed": function_fingerprint(changed)}
    assert graph_fingerprints(changed, version="2") == {"function changed": function_fingerprint(changed, "2")}
    assert list(graph_fingerprints(functools.partial(changed, {}))) == ["function changed"]
    assert list(graph_fingerprints(lambda item: item)) == ["function test_a_function_has_one_fingerprint_under_its_name.<locals>.<lambda>"]


def test_another_function_is_new_and_the_one_before_is_gone():
    lines = ["function graph_fingerprints is new", "function changed is gone"]
    assert changed(graph_fingerprints(changed), graph_fingerprints(graph_fingerprints)) == lines
    assert changed(graph_fingerprints(changed), graph_fingerprints(changed, version="2")) == ["function changed changed"]


# --- node types ---


class Foreign:
    def prepare(self, params: Mapping):
        async def step(params):
            return params

        return step


class Package:
    def __init__(self, version):
        self.name = "foreign-nodes"
        self.version = version


class Entry:
    def __init__(self, name, version):
        self.name = name
        self.dist = None if version is None else Package(version)

    def load(self):
        return Foreign


@pytest.fixture
def installed(monkeypatch):
    """Have another package's node type installed, of this version."""

    def install(version):
        node_types.cache_clear()
        _entries.cache_clear()
        monkeypatch.setattr("graphmill.graph.node.entry_points", lambda group: [Entry("foreign", version)])

    yield install
    monkeypatch.undo()
    node_types.cache_clear()
    _entries.cache_clear()


def test_a_type_that_does_not_tell_its_code_goes_by_its_package_s_version(installed, tmp_path):
    prints = []
    for version in ("1.0", "1.1", None):
        installed(version)
        prints.append(graph_fingerprints(load_workflow(tmp_path, "nodes: [{id: n, type: foreign, params: {a: 1}}]")))
    assert changed(prints[0], prints[1]) == changed(prints[0], prints[2]) == ["node 'n' changed"]


def test_our_own_types_do_not_change_with_our_version():
    assert code_fingerprint("value", {"a": 1}) == ""
    assert code_fingerprint("python", {"function": "graphmill:load"}) == function_fingerprint(gm.load)
