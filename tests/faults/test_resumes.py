"""G8, G16: what a resumed run does and says, when all is as it was, and when it is not."""

import signal

import pytest

from faults.checker import problems
from faults.effects import answer, count_lines, items, starts
from faults.project import RUN, Project
from support.command import rows
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS

DAY_S = 86_400


def killed_half_way(folder, given, **how):
    project = Project(folder / "project", given, **how)
    done = project.run(*project.batch, launch=("before-attempt", len(given) // 2))
    assert done.is_killed, done
    return project


@pytest.mark.parametrize("by_s", [-DAY_S, DAY_S])
def test_a_clock_that_was_set_between_kill_and_resume_changes_nothing(tmp_path, by_s):
    project = killed_half_way(tmp_path, items(12))
    done = project.run("resume", RUN, launch=("clock", by_s))
    assert done.code == 0, done
    assert problems(project, project.exported(), kills=1) == []
    assert project.told("status", RUN)["elapsed_s"] >= 0


def test_what_ran_at_ctrl_c_is_finished_and_kept_and_the_rest_resumed(tmp_path):
    project = Project(tmp_path / "project", items(12))
    project.shut()
    with project.start(*project.batch) as command:
        command.until(lambda: count_lines(project.log) >= project.concurrency)
        command.send(signal.SIGINT)
        command.until_said("starting nothing new")
        project.open()
        assert command.wait() == 130, command.err
    assert starts(project.log).total() == project.concurrency
    done = project.run("resume", RUN)
    assert done.code == 0, done
    assert problems(project, project.exported(), kills=0) == []


@pytest.mark.parametrize("count", [0, 1, 7])
def test_resume_says_that_everything_was_done_already(tmp_path, count):
    project = Project(tmp_path / "project", items(count))
    assert project.run(*project.batch).code == 0
    done = project.run("resume", RUN)
    assert done.code == 0, done
    assert ("every item already has a result" if count else "nothing to do") in done.out
    assert problems(project, project.exported(), kills=0) == []


def test_one_item_that_was_killed_under_way_is_done_by_resume(tmp_path):
    project = Project(tmp_path / "project", items(1))
    assert project.run(*project.batch, launch=("after-attempt", 1)).is_killed
    assert project.run("resume", RUN).code == 0
    assert problems(project, project.exported(), kills=1) == []


def test_items_that_were_put_in_taken_out_or_moved_are_run_kept_and_known(tmp_path):
    given = items(20)
    project = killed_half_way(tmp_path, given, concurrency=1)
    before = starts(project.log)
    done_before = {row["id"] for row in project.exported("half.jsonl") if row["status"] == "succeeded"}
    assert {"item-000", "item-001"} <= done_before
    new = [{"id": f"new-{i}", "ms": 0, "fails": ""} for i in range(3)]
    kept = [item for item in given if item["id"] not in ("item-001", "item-019")]
    project.put([*new[:2], *reversed(kept), new[2]])
    assert project.run("resume", RUN).code == 0
    found = {row["id"]: row for row in project.exported()}
    assert set(found) == {item["id"] for item in project.items} | {"item-001"}
    assert all(row["output"] == {"answer": answer(name)} for name, row in found.items())
    assert [name for name in done_before if starts(project.log)[name] != before[name]] == []
    assert starts(project.log)["item-019"] == 0


def test_odd_texts_in_ids_and_items_survive_kill_resume_and_export(tmp_path):
    texts = {**ODD_TEXTS, **LONE_SURROGATES}
    given = [{"id": text, "ms": 0, "fails": "", "text": text, "name": name} for name, text in texts.items()]
    project = killed_half_way(tmp_path, given)
    done = project.run("resume", RUN)
    assert done.code == 0, done
    found = {row["input"]["name"]: row for row in project.exported()}
    assert {name: row["id"] for name, row in found.items()} == texts
    assert {name: row["input"]["text"] for name, row in found.items()} == texts
    assert {name: row["output"] for name, row in found.items()} == {
        name: {"answer": answer(text)} for name, text in texts.items()
    }


def test_the_summary_after_a_retry_counts_all_items(tmp_path):
    project = Project(tmp_path / "project", items(10, fails={3: "first", 7: "first"}))
    assert project.run(*project.batch).code == 3
    done = project.run("retry", RUN)
    assert done.code == 0, done
    assert "10" in done.out
    found = project.exported()
    assert [row["status"] for row in found] == ["succeeded"] * 10
    assert starts(project.log).total() == 12
    assert rows(project.out / "all.jsonl") == found
