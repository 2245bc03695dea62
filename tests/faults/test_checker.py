"""The checker itself: it is silent about a run that is right, and finds each thing that can be wrong."""

import json

import pytest

from faults.checker import problems
from faults.effects import answer, items
from faults.project import Project


def row(item, **other):
    return {
        "id": item["id"],
        "status": "succeeded",
        "output": {"answer": answer(item["id"])},
        "error": None,
        "attempts": 1,
        **other,
    }


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path / "project", items(6), concurrency=1)
    log(project, [item["id"] for item in project.items])
    return project


def log(project, ids):
    with project.log.open("a") as stream:
        for name in ids:
            stream.write(json.dumps({"word": "start", "id": name, "pid": 1, "unique": name}) + "\n")


def test_a_run_that_is_right_has_no_problems(project):
    assert problems(project, [row(item) for item in project.items], kills=0) == []


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda rows: rows[1:], "lost"),
        (lambda rows: [*rows, rows[0]], "2 rows"),
        (lambda rows: [*rows, {**rows[0], "id": "other"}], "never given"),
        (lambda rows: [{**rows[0], "output": {"answer": 1}}, *rows[1:]], "not"),
        (lambda rows: [{**rows[0], "status": "pending", "output": None}, *rows[1:]], "pending"),
        (lambda rows: [{**rows[0], "attempts": 3}, *rows[1:]], "3 attempts"),
    ],
)
def test_a_row_that_is_wrong_is_found(project, spoil, word):
    (found,) = [
        found
        for found in problems(project, spoil([row(item) for item in project.items]), kills=0)
        if "other is" not in found
    ]
    assert word in found


def test_more_repeats_than_the_kills_allow_are_found(project):
    found = [row(item) for item in project.items]
    log(project, ["item-000", "item-001"])
    assert problems(project, found, kills=1) == []
    log(project, ["item-002"])
    assert "3 attempts were repeated after 1 kills" in problems(project, found, kills=1)[0]
