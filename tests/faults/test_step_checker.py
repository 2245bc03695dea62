"""The checker of steps itself: it is silent about a run that is right, and finds each thing that can be wrong."""

import json

import pytest

from faults import step_checker
from faults.project import Project
from faults.step_effects import WORKFLOW, item


def row(name, **other):
    return {
        "id": name,
        "status": "succeeded",
        "output": {"sent": 1},
        "error": None,
        "attempts": 1,
        "metadata": {},
        **other,
    }


WHOLE = {"job-00": row("job-00")}


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project", [item(0)], concurrency=1, workflow=WORKFLOW)


def log(project, pid, *paths, word="end"):
    with project.log.open("a") as stream:
        for path in paths:
            for each in ("start", word):
                stream.write(
                    json.dumps({"word": each, "id": "job-00", "path": path, "pid": pid, "unique": f"{pid} {path}"})
                    + "\n"
                )


def found(project, *rows, committed=((0, frozenset()),)):
    return step_checker.problems(project, rows or [row("job-00")], whole=WHOLE, committed=committed)


def test_a_run_that_is_right_has_no_problems(project):
    log(project, 1, "open", "each[0]", "each[1]")
    log(project, 2, "each[0]", "each[1]", "send")
    assert found(project) == []


def test_an_item_is_ambiguous_only_by_its_step_that_must_not_happen_twice(project):
    error = {"kind": "ambiguous", "message": "it may have happened (in node 'send')"}
    assert found(project, row("job-00", status="failed", output=None, error=error)) == []
    assert (
        len(
            found(
                project, row("job-00", status="failed", output=None, error={**error, "message": "no (in node 'open')"})
            )
        )
        == 1
    )


def test_an_item_is_not_ambiguous_without_a_kill_or_if_its_step_was_committed(project):
    doubtful = row(
        "job-00", status="failed", output=None, error={"kind": "ambiguous", "message": "no (in node 'send')"}
    )
    assert len(found(project, doubtful, committed=())) == 1
    assert len(found(project, doubtful, committed=[(0, {("job-00", "send")})])) == 1


@pytest.mark.parametrize(
    "wrong", [{"output": {"sent": 2}}, {"attempts": 2}, {"metadata": {"degraded": True}}, {"status": "failed"}]
)
def test_a_row_that_is_not_that_of_an_undisturbed_run_is_found(project, wrong):
    assert len(found(project, row("job-00", **wrong))) == 1


def test_a_step_that_was_committed_and_is_started_again_is_found(project):
    log(project, 1, "open")
    log(project, 2, "open")
    assert "was committed" in found(project, committed=[(2, {("job-00", "open")})])[0]


def test_more_repeats_than_a_kill_allows_are_found(project):
    log(project, 1, "a", "b", "c")
    log(project, 2, "a", "b", "c")
    assert "3 attempts were repeated" in found(project)[0]


def test_an_attempt_that_failed_and_is_followed_by_another_is_no_repeat(project):
    log(project, 1, "a", "b", "c", word="retry")
    log(project, 2, "a", "b", "c")
    assert found(project) == []


def test_a_step_that_must_not_happen_twice_and_did_is_found(project):
    log(project, 1, "send")
    log(project, 2, "send")
    assert "send of job-00 was started 2 times" in found(project)[0]
