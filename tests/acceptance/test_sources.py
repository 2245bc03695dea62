"""Where the items of a recorded run come from, when it is gone on with: the same file, another, standard input, nothing."""

import json

import pytest

import graphmill as gm
from support.command import answered, rows, run, write_items

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


# -- what is selected of a source


CHOSEN = [
    "--map",
    "value=the number,note=text",
    "--filter",
    "kind=a",
    "--shuffle",
    "3",
    "--offset",
    "1",
    "--limit",
    "6",
]


@pytest.fixture
def table(project):
    """Twenty good rows with spaces in a column's name, and a bad one in the middle."""
    lines = [f"r{number};{number};{'ab'[number % 2]};x,y" for number in range(20)]
    (project / "table.csv").write_text("\n".join(["id;the number;kind;text", *lines[:9], "bad;row", *lines[9:]]))
    return project / "table.csv"


def ids(project, run_id):
    return [row["id"] for row in map(json.loads, answered(project, "export", run_id, "-").splitlines())]


def test_what_is_selected_is_recorded_and_a_resume_selects_the_same(project, table):
    begin = ["batch", "wf.yaml", "-s", "table.csv", *CHOSEN]
    code, _, err = run(project, *begin, "--run-id", "broken")
    assert (code, "table.csv: line 11: 2 fields, but the header has 4" in err) == (65, True)
    code, out, err = run(project, *begin, "--skip-bad-rows", "--run-id", "r")
    assert (code, "6/6 items succeeded" in out) == (0, True)
    assert "note: 1 bad row skipped: table.csv: line 11: 2 fields, but the header has 4\n" in out + err
    (first, *_) = rows_of_run = [json.loads(line) for line in answered(project, "export", "r", "-").splitlines()]
    assert (first["input"]["note"], first["output"]["value"]) == ("x,y", first["id"][1:])
    # The file gets a row; what was selected before stays selected, and a resume finds nothing else to do.
    source = json.loads(answered(project, "show", "r", "--json"))["manifest"]["source"]
    assert (source["filters"], source["shuffle"], source["skip_bad_rows"]) == ([["kind", "a"]], 3, True)
    again = gm.source(**source)
    assert [item["id"] for item in again] == [row["id"] for row in rows_of_run]
    resumed = json.loads(answered(project, "resume", "r", "--json"))
    assert (resumed["summary"], len(resumed["notes"])) == ("6/6 items succeeded", 1)


def test_another_file_for_a_resume_is_selected_from_in_the_same_way(project, table):
    content = table.read_text()
    assert run(project, "batch", "wf.yaml", "-s", "-", "--source-format", "csv", *CHOSEN, "--run-id", "r",
               stdin=content.encode())[0] == 65  # fmt: skip
    (project / "good.csv").write_text(content.replace("bad;row\n", ""))
    assert "6/6 items succeeded" in answered(project, "resume", "r", "--source", "good.csv")
    assert answered(project, "batch", "wf.yaml", "-s", "good.csv", *CHOSEN, "--run-id", "s")
    assert ids(project, "r") == ids(project, "s")


def test_the_items_of_a_run_are_the_items_of_the_next_with_their_results(project):
    (project / "second.yaml").write_text(
        WORKFLOW.replace("{value: {required: true}}", "{result: {required: true}}").replace(
            "${value}", "${result.output.value}"
        )
    )
    answered(project, "batch", "wf.yaml", "-s", "small.jsonl", "--run-id", "first")
    answered(
        project, "batch", "second.yaml", "-s", "run:fir", "--filter", "result.status=succeeded", "--run-id", "second"
    )
    found = [json.loads(line) for line in answered(project, "export", "second", "-").splitlines()]
    assert [(row["id"], row["output"]["value"]) for row in found] == [("new-0", 0), ("new-1", 1)]
    assert found[0]["input"] == {
        "id": "new-0",
        "value": 0,
        "result": {"status": "succeeded", "output": {"value": 0}, "error": None},
    }
    assert "2/2 items succeeded" in answered(project, "resume", "second")
    code, _, err = run(project, "batch", "second.yaml", "-s", "run:zzz")
    assert (code, "no run" in err) == (2, True)


def test_results_are_not_written_among_the_items_of_a_pattern(project):
    code, _, err = run(project, "batch", "wf.yaml", "-s", "*.jsonl", "-o", "out.jsonl")
    assert (code, "would overwrite the items" in err) == (2, True)


def test_an_export_takes_columns_and_parquet(project):
    answered(project, "batch", "wf.yaml", "-s", "small.jsonl", "--run-id", "r", "-o", "out.parquet")
    assert [row["output.value"] for row in gm.source(project / "out.parquet")] == [0, 1]
    answered(project, "export", "r", "some.parquet", "--columns", "id, value")
    assert list(gm.source(project / "some.parquet")) == [{"id": "new-0", "value": 0}, {"id": "new-1", "value": 1}]
    assert (
        answered(project, "export", "r", "-", "--format", "csv", "--columns", "value,id")
        == "value,id\r\n0,new-0\r\n1,new-1\r\n"
    )
    code, _, err = run(project, "export", "r", "x.csv", "--columns", "id,vlue")
    assert (code, "did you mean" in err, (project / "x.csv").exists()) == (2, True, False)
