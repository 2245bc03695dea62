"""Where the items of a recorded run come from, when it is gone on with: the same file, another, standard input, nothing."""

import json

import pytest

import graphmill as gm
from support.command import rows, run, write_items

WORKFLOW = """
inputs: {value: {required: true}}
nodes: [{id: row, type: value, params: {value: "${value}"}}]
outputs: {value: "${row.value}"}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "wf.yaml").write_text(WORKFLOW)
    write_items(tmp_path, [{"id": f"old-{number}", "value": number} for number in range(20)], "large.jsonl")
    write_items(tmp_path, [{"id": f"new-{number}", "value": number} for number in range(2)], "small.jsonl")
    return tmp_path


def begun(project):
    """Begin a run and leave most of it to do: its source ends in a line that is damaged."""
    with (project / "large.jsonl").open("a") as file:
        file.write("{")
    assert run(project, "batch", "wf.yaml", "-s", "large.jsonl", "--run-id", "r")[0] == 65
    write_items(project, [{"id": f"old-{number}", "value": number} for number in range(30)], "large.jsonl")


def test_another_file_under_the_id_of_a_run_is_refused_and_nothing_is_forgotten(project):
    begun(project)
    code, out, err = run(project, "batch", "wf.yaml", "-s", "small.jsonl", "--run-id", "r")
    assert (code, out) == (2, "")
    assert "large.jsonl', not '" in err
    assert "graphmill resume r --source FILE" in err
    assert run(project, "resume", "r", "-o", "out.jsonl")[0] == 0
    assert [row["id"] for row in rows(project / "out.jsonl")] == [f"old-{number}" for number in range(30)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["resume", "r", "--source", "small.jsonl"],
        ["batch", "wf.yaml", "-s", "small.jsonl", "--run-id", "r", "--on-change", "keep"],
    ],
)
def test_another_file_is_taken_if_that_is_said(project, arguments):
    begun(project)
    assert run(project, *arguments, "-o", "out.jsonl")[0] == 0
    assert {row["id"] for row in rows(project / "out.jsonl")} >= {"new-0", "new-1"}


def test_a_project_that_was_moved_goes_on_with_its_file(project, tmp_path_factory):
    begun(project)
    moved = project.rename(tmp_path_factory.mktemp("elsewhere") / "project")
    assert run(moved, "batch", "wf.yaml", "-s", "large.jsonl", "--run-id", "r")[0] == 0


def test_a_run_whose_items_came_by_standard_input_says_that_they_must_be_given_again(project):
    lines = json.dumps({"id": "a", "value": 1}).encode() + b"\n{"
    code, out, _ = run(project, "batch", "wf.yaml", "-s", "-", "--run-id", "q4", stdin=lines)
    assert (
        code,
        "graphmill resume q4 --source FILE   after the source is corrected, continues it; its items came from standard input"
        in out,
    ) == (
        65,
        True,
    )
    assert "gm.batch" not in out
    said = run(project, "errors", "q4")[1]
    assert "no item failed\nthe run failed: " in said


def test_of_a_new_run_without_items_nothing_was_done_already(project):
    (project / "none.jsonl").touch()
    code, out, _ = run(project, "batch", "wf.yaml", "-s", "none.jsonl", "--run-id", "r")
    assert (code, "done already" in out) == (0, False)
    run(project, "batch", "wf.yaml", "-s", "small.jsonl", "--run-id", "s")
    assert (
        "every item already has a result" in run(project, "batch", "wf.yaml", "-s", "small.jsonl", "--run-id", "s")[1]
    )


class Ending(dict):
    def get(self, _key, _default=None):
        raise StopIteration


def test_an_item_whose_code_raises_stop_iteration_does_not_end_the_source_in_silence():
    with pytest.raises(gm.SourceError) as raised:
        gm.batch(lambda item: item, [{"id": "a"}, Ending(), {"id": "b"}], journal="memory:", run_id="r")
    assert raised.value.position == 1
