import functools

from graphmill.core.fingerprint import changed, function_fingerprint
from graphmill.graph.fingerprint import graph_fingerprints
from graphmill.graph.workflow import load_data


def test_the_author_s_version_is_a_part_of_its_own():
    graph = load_data({"nodes": [{"id": "n", "type": "value"}]})
    assert graph_fingerprints(graph) == graph.fingerprints
    versions = [graph_fingerprints(graph, version=version) for version in (None, "1", "2")]
    assert changed(versions[1], versions[2]) == ["version changed"]
    assert changed(versions[0], versions[2]) == ["version is new"]


def test_a_function_has_one_fingerprint_under_its_name():
    assert graph_fingerprints(changed) == {"function changed": function_fingerprint(changed)}
    assert graph_fingerprints(changed, version="2") == {"function changed": function_fingerprint(changed, "2")}
    assert list(graph_fingerprints(functools.partial(changed, {}))) == ["function changed"]
    assert list(graph_fingerprints(lambda item: item)) == [
        "function test_a_function_has_one_fingerprint_under_its_name.<locals>.<lambda>"
    ]


def test_another_function_is_new_and_the_one_before_is_gone():
    lines = ["function graph_fingerprints is new", "function changed is gone"]
    assert changed(graph_fingerprints(changed), graph_fingerprints(graph_fingerprints)) == lines
    assert changed(graph_fingerprints(changed), graph_fingerprints(changed, version="2")) == [
        "function changed changed"
    ]
