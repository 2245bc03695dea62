"""G7: a run has one owner."""

import socket

from faults.checker import problems
from faults.effects import count_lines, items
from faults.project import RUN, Project

REFUSES_WITHIN_S = 5 * 2.0


def test_a_second_owner_is_refused_and_told_who_has_the_run(tmp_path):
    project = Project(tmp_path / "project", items(6))
    project.shut()
    with project.start(*project.batch) as command:
        command.until(lambda: count_lines(project.log) >= project.concurrency)
        second = project.run("resume", RUN, within_s=REFUSES_WITHIN_S)
        project.open()
        code = command.wait()
    assert second.code == 75, second
    assert str(command.process.pid) in second.err
    assert socket.gethostname() in second.err
    assert code == 0, command.err
    assert problems(project, project.exported(), kills=0) == []


def test_the_run_of_a_dead_owner_is_taken_at_once(tmp_path):
    project = Project(tmp_path / "project", items(6))
    assert project.run(*project.batch, launch=("before-attempt", 5)).is_killed
    done = project.run("resume", RUN, within_s=REFUSES_WITHIN_S)
    assert done.code == 0, done
    assert problems(project, project.exported(), kills=1) == []


def test_two_that_resume_at_once_are_one_owner_and_one_refused(tmp_path):
    project = Project(tmp_path / "project", items(12, ms=(5,)))
    assert project.run(*project.batch, launch=("before-attempt", 5)).is_killed
    project.shut()
    with project.start("resume", RUN) as one, project.start("resume", RUN) as other:
        one.until(lambda: one.process.poll() is not None or other.process.poll() is not None)
        project.open()
        codes = sorted((one.wait(), other.wait()))
    assert codes == [0, 75], (one.err, other.err)
    assert problems(project, project.exported(), kills=1) == []
