from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.graph.compiler.order import find_order
from graphmill.graph.graph import ANY_ACTION, Edge
from graphmill.graph.language.document import Document
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.reader import read_spec
from graphmill.graph.workflow import load_data


def workflow(count, edges=None, **more):
    return {"nodes": [{"id": f"n{number}", "type": "value"} for number in range(count)], "edges": edges, **more}


def edge(source, target, action="default"):
    return {"from": f"n{source}", "to": f"n{target}", "action": action}


def test_without_edges_nodes_are_a_chain_in_listed_order():
    graph = load_data(workflow(3))
    assert graph.starts == ("n0",)
    assert graph.nodes["n1"].incoming == (Edge(source="n0", target="n1", action=ANY_ACTION),)
    assert graph.nodes["n1"].outgoing == (Edge(source="n1", target="n2", action=ANY_ACTION),)
    assert load_data(workflow(3, [])).nodes["n0"].outgoing == graph.nodes["n0"].outgoing


def test_edges_may_differ_in_their_action_only(tmp_path):
    graph = load_data(workflow(2, [edge(0, 1), edge(0, 1, "error")]))
    assert [each.action for each in graph.nodes["n0"].outgoing] == ["default", "error"]


def test_a_chain_of_thousands_is_no_matter_of_depth():
    assert len(load_data(workflow(3000)).nodes) == 3000


pairs = st.integers(0, 6)


@given(st.lists(st.tuples(pairs, pairs), unique=True, max_size=14))
def test_either_there_is_a_cycle_and_it_is_real_or_before_and_after_are_as_the_edges_say(found):
    document = Document.from_data(workflow(7, [edge(*ends) for ends in found]))
    problems = Problems(document)
    order = find_order(read_spec(document, problems=problems), problems)
    reach = set(found) if found else set(pairwise(range(7)))
    for middle in range(7):
        reach |= {(a, d) for a, b in reach for c, d in reach if b == c == middle}
    is_cyclic = any((number, number) in reach for number in range(7))
    assert order.is_sound != is_cyclic
    if is_cyclic:
        for problem in problems.found:
            cycle = problem.message.split("cycle: ")[1].split(";")[0].split(" → ")
            assert all((int(a[1:]), int(b[1:])) in found for a, b in pairwise(cycle))
            assert cycle[0] == cycle[-1]
    else:
        assert not problems.found
        for a in range(7):
            for b in range(7):
                assert order.can_have_run(f"n{a}", f"n{b}") == ((a, b) in reach)


def test_each_knot_of_cycles_is_told():
    with pytest.raises(gm.WorkflowError) as caught:
        load_data(workflow(5, [edge(0, 1), edge(1, 0), edge(2, 3), edge(3, 4), edge(4, 2), edge(1, 2)]))
    assert [line.split("cycle: ")[1].split(";")[0] for line in caught.value.problems] == [
        "n0 → n1 → n0",
        "n2 → n3 → n4 → n2",
    ]
