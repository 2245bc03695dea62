from pathlib import Path

import pytest

from support.compiling import problems_of
from support.own_types import NAMES

TABLE = Path(__file__).with_name("broken_workflows.txt").read_text(encoding="utf-8")
CASES = [case.split("\n", 1) for case in TABLE.removeprefix("=== ").split("\n=== ")]
FILES = {
    "child.yaml": """\
        inputs: {name: {type: string, required: true}}
        nodes: [{id: greet, type: value, params: {text: "Hello ${name}"}}]
        outputs: {greeting: "${greet.text}"}
        """,
    "broken.yaml": "nodes:\n  - {id: x, type: value, params: {a: '${y}'}}\n",
    "torn.yaml": "nodes: [\n",
    "there.yaml": "nodes:\n  - {id: x, type: workflow, params: {workflow: back}}\n",
    "back.yml": "nodes:\n  - {id: x, type: workflow, params: {workflow: w.yaml}}\n",
}


@pytest.mark.parametrize(("title", "case"), CASES, ids=[title for title, _ in CASES])
def test_a_broken_workflow_is_refused_with_every_problem_in_its_place(tmp_path, title, case):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    text, expected = case.split("\n---\n")
    assert problems_of(tmp_path, text) == expected.replace("TYPES", ", ".join(NAMES)).strip().split("\n")


def test_the_table_is_long_and_its_titles_differ():
    assert len({title for title, _ in CASES}) == len(CASES) >= 50
