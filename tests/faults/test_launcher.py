"""The launcher itself: every named point is reached, and its death is one."""

import pytest

from faults.effects import count_lines, items, starts
from faults.project import Project


def test_without_a_visit_of_the_point_the_command_is_the_usual_one(tmp_path):
    project = Project(tmp_path / "project", items(3))
    done = project.run(*project.batch, launch=("before-attempt", 99))
    assert done.code == 0, done
    assert starts(project.log).total() == 3


@pytest.mark.parametrize(("point", "lines"), [("before-attempt", 2), ("after-attempt", 3)])
def test_a_death_comes_at_the_visit_that_was_named(tmp_path, point, lines):
    project = Project(tmp_path / "project", items(5), concurrency=4)
    project.shut()
    done = project.run(*project.batch, launch=(point, 3))
    assert done.is_killed, done
    assert count_lines(project.log) <= lines
