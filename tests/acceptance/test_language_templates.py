"""The workflow language: templates, rule by rule."""

import json

import pytest

import graphmill as gm

ECHO = """
    inputs: {{a: {{default: null}}, b: {{default: null}}}}
    nodes:
      - {{id: store, type: value, params: {{given: "${{a}}", other: "${{b}}", is-hyphened: 7}}}}
      - {{id: echo, type: value, params: {{seen: {text}}}}}
    outputs: {{seen: "${{echo.seen}}"}}
"""


def seen(flow, text, a=None, b=None):
    """Resolve a text of a param; ``a`` and ``b`` are inputs, and read by the node ``store`` before."""
    return flow.output(ECHO.format(text=json.dumps(text)), {"a": a, "b": b})["seen"]


def test_an_index_that_is_text_looks_up_a_key(flow):
    rubrics = {"math": "exact", "code base": {"rules": ["runs"]}, "0": "zero"}
    assert seen(flow, "${a[${b}]}", rubrics, "math") == "exact"
    assert seen(flow, "${a[${b}].rules[0]}", rubrics, "code base") == "runs"
    assert seen(flow, '${a[${b}] ?? "none"}', rubrics, "history") == "none"
    assert seen(flow, '${a[${b}] ?? "none"}', ["list"], "0") == "none"


@pytest.mark.parametrize(
    "text",
    ["${a.upper()}", "${a + b}", "${a|upper}", "${a['x']}", "${}", "${ }", "${a", "${a.}", "${a[x]}", "${a ?? }"],
)
def test_nothing_else_is_a_template(flow, text):
    (problem,) = flow.problems(ECHO.format(text=json.dumps(text)))
    assert "workflow.yaml:5:" in problem


def test_missing_is_never_retried(flow):
    calls = []

    @flow.act
    async def before():
        calls.append("before")
        return {}

    result = flow.result(
        """
        nodes:
          - {id: before, type: python, params: {function: "acts:before"}, retry: {attempts: 5}}
          - {id: fetch, type: python, params: {function: "acts:before", inputs: "${before.result.no}"}, retry: {attempts: 5}}
        """
    )
    assert (result.status, result.error.kind, calls) == ("failed", "permanent", ["before"])


def test_templates_stand_at_any_depth_of_a_value_and_not_in_keys(flow):
    found = flow.output(
        """
        inputs: {a: {required: true}}
        nodes:
          - {id: deep, type: value, params: {list: [1, ["<${a}>", {x: "${a}"}]], "${a}": key}}
        """,
        {"a": 5},
    )
    assert found == {"list": [1, ["<5>", {"x": 5}]], "${a}": "key"}


def test_a_file_tag_stands_for_the_file_s_text_which_is_a_template(flow):
    (flow.folder / "prompt.md").write_text("Describe ${a.name}.\n", encoding="utf-8")
    assert (
        flow.output(
            """
            inputs: {a: {required: true}}
            nodes:
              - {id: ask, type: value, params: {prompt: !file prompt.md}}
            outputs: {prompt: "${ask.prompt}"}
            """,
            {"a": {"name": "Ann"}},
        )["prompt"].strip()
        == "Describe Ann."
    )


def test_a_file_is_taken_when_the_workflow_is_compiled(flow):
    prompt = flow.folder / "prompt.md"
    prompt.write_text("then", encoding="utf-8")
    graph = flow.load("nodes: [{id: ask, type: value, params: {prompt: !file prompt.md}}]")
    prompt.write_text("now", encoding="utf-8")
    (result,) = gm.batch(graph, [{}]).results()
    assert result.output == {"prompt": "then"}


@pytest.mark.parametrize(("name", "text"), [("data.json", '{"x": [1, "${a}"]}'), ("data.yaml", "x: [1, '${a}']\n")])
def test_a_json_or_yaml_file_becomes_its_data(flow, name, text):
    (flow.folder / name).write_text(text, encoding="utf-8")
    workflow = f"""
        inputs: {{a: {{required: true}}}}
        nodes: [{{id: data, type: value, params: {{data: !file {name}}}}}]
    """
    assert flow.output(workflow, {"a": 5}) == {"data": {"x": [1, 5]}}


def test_paths_are_relative_to_the_workflow_file(flow, monkeypatch, tmp_path_factory):
    (flow.folder / "sub").mkdir()
    (flow.folder / "sub" / "prompt.md").write_text("here", encoding="utf-8")
    (flow.folder / "sub" / "child.yaml").write_text(
        "nodes: [{id: ask, type: value, params: {prompt: !file prompt.md}}]", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert flow.output("nodes: [{id: down, type: workflow, params: {workflow: sub/child.yaml}}]") == {"prompt": "here"}


def test_a_mistake_in_an_included_file_is_placed_in_that_file(flow):
    (flow.folder / "prompt.md").write_text("fine\nand ${a.}\n", encoding="utf-8")
    assert "prompt.md" in flow.problem("nodes: [{id: ask, type: value, params: {prompt: !file prompt.md}}]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${stor.given}", ["stor", "store"]),
        ("${c}", ["c"]),
        ("${item}", ["item"]),
        ("${echo.seen}", ["echo"]),
        ("${later.x}", ["later", "has not run yet"]),
        ("${__index__}", ["__index__", "batch"]),
        ("${__round__}", ["__round__", "loop"]),
        ("${round.x}", ["round", "loop"]),
        ("${past}", ["past"]),
    ],
)
def test_references_are_checked_when_the_workflow_is_compiled(flow, text, said):
    workflow = f"""
        inputs: {{a: {{default: 1}}}}
        nodes:
          - {{id: store, type: value, params: {{given: 1}}}}
          - {{id: echo, type: value, params: {{seen: {json.dumps(text)}}}}}
          - {{id: later, type: value, params: {{x: 1}}}}
    """
    problem = flow.problem(workflow)
    assert "workflow.yaml:5:" in problem
    for word in said:
        assert word in problem


def test_an_item_alias_is_known_in_its_batch_only(flow):
    problem = flow.problem(
        """
        nodes:
          - {id: each, type: value, params: {x: "${user}"}, batch: {items: [1], as: user}}
          - {id: after, type: value, params: {x: "${user}"}}
        """
    )
    assert "'each'" in problem
    assert "workflow.yaml:4:" in problem


def test_an_output_that_the_type_does_not_have_is_refused_with_those_it_has(flow):
    problem = flow.problem(
        """
        nodes:
          - {id: run, type: code, params: {code: "result = 1"}}
          - {id: after, type: value, params: {x: "${run.reslt}"}}
        """
    )
    for word in ("reslt", "result", "stdout", "did you mean"):
        assert word in problem


def test_a_child_s_outputs_are_checked_too(flow):
    problem = flow.problem(
        """
        nodes:
          - id: down
            type: workflow
            params: {workflow: {nodes: [{id: v, type: value, params: {x: 1}}], outputs: {answer: "${v.x}"}}}
          - {id: after, type: value, params: {x: "${down.anser}"}}
        """
    )
    assert "answer" in problem


def test_all_problems_are_reported_at_once_with_their_places(flow):
    problems = flow.problems(
        """
        inputs: {a: {requird: true}}
        nodes:
          - {id: one, type: valeu, params: {x: 1}}
          - {id: two, type: value, params: {x: "${nobody.x}"}}
          - {id: three, type: value, params: {x: "${a.}"}}
          - {id: four, type: value, paramz: {x: 1}}
        """
    )
    for line, word in [(2, "required"), (4, "value"), (5, "nobody"), (6, "a."), (7, "params")]:
        assert any(f"workflow.yaml:{line}:" in problem and word in problem for problem in problems), (
            line,
            word,
            problems,
        )


def test_json_and_yaml_are_one_language(flow):
    data = {"inputs": {"a": {"required": True}}, "nodes": [{"id": "v", "type": "value", "params": {"x": "<${a}>"}}]}
    path = flow.write(json.dumps(data), "workflow.json")
    (result,) = gm.batch(path, [{"a": 5}]).results()
    assert result.output == {"x": "<5>"}
