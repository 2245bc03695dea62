import json

from support.compiling import compiled, problems_of

CHILD = """
inputs: {name: {type: string, required: true}, tone: {default: kind}}
nodes: [{id: greet, type: value, params: {text: "Hello ${name}"}}]
outputs: {greeting: "${greet.text}"}
"""


def test_a_child_is_found_by_path_and_by_name_and_compiled_once(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "child.yaml").write_text(CHILD)
    (tmp_path / "sub" / "mid.yml").write_text(
        "nodes: [{id: x, type: workflow, params: {workflow: ../child.yaml, inputs: {name: n}}}]"
    )
    (tmp_path / "other.json").write_text(json.dumps({"nodes": [{"id": "x", "type": "value"}]}))
    graph = compiled(
        tmp_path,
        """
        nodes:
          - {id: a, type: workflow, params: {workflow: child.yaml, inputs: {name: a}}}
          - {id: b, type: workflow, params: {workflow: child, inputs: {name: "${a.greeting}"}}}
          - {id: c, type: workflow, params: {workflow: sub/mid.yml}}
          - {id: d, type: workflow, params: {workflow: other, inputs: {}}, batch: {items: [1, 2]}}
        """,
    )
    child = graph.nodes["a"].child
    assert child is graph.nodes["b"].child is graph.nodes["c"].child.nodes["x"].child
    assert (child.name, child.path) == ("child", str(tmp_path / "child.yaml"))
    assert graph.nodes["c"].child.path == str(tmp_path / "sub" / "mid.yml")
    assert graph.nodes["d"].child.name == "other"
    assert graph.nodes["d"].params.resolve({}) == {"workflow": "other", "inputs": {}}


def test_inputs_that_are_a_template_are_known_when_they_are_resolved(tmp_path):
    (tmp_path / "child.yaml").write_text(CHILD)
    compiled(
        tmp_path, "inputs: {all: {}}\nnodes: [{id: a, type: workflow, params: {workflow: child, inputs: '${all}'}}]"
    )


def test_an_input_that_is_a_template_or_a_secret_may_be_of_any_type(tmp_path):
    (tmp_path / "child.yaml").write_text(CHILD)
    for value in ("'${x}'", "{env: NAME}"):
        compiled(
            tmp_path,
            f"inputs: {{x: {{}}}}\nnodes: [{{id: a, type: workflow, params: {{workflow: child, inputs: {{name: {value}}}}}}}]",
        )


def test_two_files_that_run_each_other_are_refused_wherever_one_begins(tmp_path):
    (tmp_path / "a.yaml").write_text("nodes: [{id: x, type: workflow, params: {workflow: b}}]")
    inline = "{nodes: [{id: z, type: workflow, params: {workflow: a}}]}"
    (line,) = problems_of(tmp_path, f"nodes: [{{id: y, type: workflow, params: {{workflow: {inline}}}}}]", "b.yaml")
    assert line.startswith(
        "a.yaml:1:52: node 'x': params.workflow: a workflow cannot run itself: b.yaml → a.yaml → b.yaml; "
    )


def test_a_link_to_a_file_is_that_file(tmp_path):
    (tmp_path / "link.yaml").symlink_to(tmp_path / "w.yaml")
    assert (
        "cannot run itself"
        in problems_of(tmp_path, "nodes: [{id: x, type: workflow, params: {workflow: link.yaml}}]")[0]
    )


def test_a_long_chain_of_files_is_refused_and_ends(tmp_path):
    for number in range(80):
        (tmp_path / f"c{number}.yaml").write_text(
            f"nodes: [{{id: x, type: workflow, params: {{workflow: c{number + 1}}}}}]"
        )
    assert problems_of(tmp_path, "nodes: [{id: x, type: workflow, params: {workflow: c0}}]") == [
        "c49.yaml:1:1: workflow: workflows are nested deeper than 50 levels"
    ]


def test_paths_that_are_none_are_problems(tmp_path):
    for written in ("a\\0b", "x" * 5000, "sub/" * 2000, "/", ".."):
        (line,) = problems_of(tmp_path, f'nodes: [{{id: x, type: workflow, params: {{workflow: "{written}"}}}}]')
        assert line.startswith("w.yaml:1:52: node 'x': params.workflow: "), line
