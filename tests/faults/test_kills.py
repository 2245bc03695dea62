"""G1, G2, G9: kill -9 at random moments and at every named point; nothing is lost, nothing is there twice, little is repeated."""

import time

import pytest

from faults.checker import problems
from faults.effects import count_lines, items, starts
from faults.harness import Night, play
from faults.points import POINTS
from faults.project import RUN, Project
from faults.summary import held
from support.command import rows

NIGHTS = 24


@pytest.mark.parametrize("seed", range(NIGHTS))
def test_a_run_that_is_killed_at_any_moment_is_whole_in_the_end(tmp_path, seed):
    played = play(Night.of(seed), tmp_path / "project", is_thorough=seed % 6 == 0)
    if played.problems:
        pytest.fail("\n".join([f"make soak NIGHT={seed}", *played.problems]), pytrace=False)
    assert played.killed == 2


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_killed_at_a_named_point_is_whole_in_the_end(tmp_path, point):
    night = Night.of(point, points=(point,))
    played = play(night, tmp_path / "project")
    assert played.problems == []
    assert played.killed == 1


def test_a_death_is_held_against_an_item_once_however_often_the_resume_is_killed(tmp_path):
    project = Project(tmp_path / "project", items(3), concurrency=1)
    assert project.run(*project.batch, launch=("after-attempt", 1)).is_killed
    for _ in range(2):
        assert project.run("resume", RUN, launch=("after-suspicion", 1)).is_killed
    assert project.run("resume", RUN).code == 0
    assert problems(project, project.exported(), kills=1) == []


@pytest.mark.parametrize("concurrency", [1, 4])
def test_while_a_commit_hangs_no_more_is_begun_than_twice_the_concurrency(tmp_path, concurrency):
    project = Project(tmp_path / "project", items(40, ms=(1,)), concurrency=concurrency)
    with project.start(*project.batch, launch=("within-commit", 3)) as command:
        command.until(lambda: count_lines(project.log))
        wait_quiet(project.log)
        command.process.kill()
        command.wait()
    assert starts(project.log).total() - held(project) <= 2 * concurrency
    assert project.run("resume", RUN).code == 0
    assert problems(project, project.exported(), kills=1) == []


def wait_quiet(log):
    """Wait until nothing was added for a second: too short a wait would hide a fault, and make none."""
    lines, looks = 0, 0
    while looks < 20:
        looks = looks + 1 if (now := count_lines(log)) == lines else 0
        lines = now
        time.sleep(0.05)


@pytest.mark.parametrize(("point", "is_there"), [("before-rename", False), ("after-rename", True)])
def test_an_export_that_is_killed_is_whole_or_absent(tmp_path, point, is_there):
    project = Project(tmp_path / "project", items(9))
    assert project.run(*project.batch).code == 0
    assert project.run("export", RUN, "out/all.jsonl", launch=(point, 1)).is_killed
    assert (project.out / "all.jsonl").exists() == is_there
    assert not is_there or len(rows(project.out / "all.jsonl")) == 9
    assert problems(project, project.exported(), kills=0) == []
