from support.compiling import compiled


def test_aliases_and_histories_of_different_nodes_may_be_equal(tmp_path):
    graph = compiled(
        tmp_path,
        """
        nodes:
          - {id: a, type: value, batch: {items: [1], as: it}, loop: {max: 2}}
          - {id: b, type: value, batch: {items: [1], as: it}, loop: {max: 2}}
          - {id: c, type: value, batch: {items: [1], as: past}}
          - {id: d, type: value, loop: {max: 2, history: it}}
        """,
    )
    assert [node.batch.alias for node in graph.nodes.values() if node.batch] == ["it", "it", "past"]


def test_a_child_has_names_of_its_own(tmp_path):
    graph = compiled(
        tmp_path,
        """
        inputs: {problem: {}}
        nodes:
          - id: solve
            type: workflow
            params:
              inputs: {problem: "${problem}", past: "${past}"}
              workflow:
                inputs: {problem: {}, past: {}}
                nodes: [{id: solve, type: value, params: {x: "${past}", y: "${problem}"}}]
            loop: {max: 2}
        """,
    )
    assert list(graph.nodes["solve"].child.inputs) == ["problem", "past"]
