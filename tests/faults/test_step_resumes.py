"""G3, G8, G15, G16: what is done again, and what is not, when a workflow of many steps is left, resumed, retried or changed."""

import signal

import pytest

from faults.effects import count_lines
from faults.project import RUN, Project
from faults.step_checker import problems
from faults.step_effects import WORKFLOW, effects, item, starts
from faults.summary import rows_held, steps_held
from faults.test_kills import wait_quiet

ACT = 'function: "faults.step_effects:act"'


def whole_of(folder, items):
    """Run items undisturbed, without their failures; give their rows by id."""
    project = Project(folder / "whole", [{**each, "fails": {}} for each in items], workflow=WORKFLOW)
    assert project.run(*project.batch).code == 0
    return {row["id"]: row for row in project.exported()}


def node(name, given="null", *, ms='"${ms}"', more=""):
    inputs = f'{{id: "${{id}}", ms: {ms}, fails: "${{fails}}", given: {given}}}'
    return f"  - {{id: {name}, type: python, params: {{{ACT}, inputs: {inputs}}}{more}}}\n"


def workflow(*nodes, edges=""):
    inputs = "inputs: {id: {required: true}, ms: {required: true}, parts: {default: []}, fails: {default: {}}}\n"
    return inputs + "nodes:\n" + "".join(nodes) + (f"edges:\n{edges}" if edges else "")


def edge(source, target, action="default"):
    return f"  - {{from: {source}, to: {target}, action: {action}}}\n"


def started_since(project, lines):
    """Which steps were started since the log had so many lines."""
    return [effect.path for effect in effects(project.log)[lines:] if effect.word == "start"]


def held_then_killed(project, *arguments, attempt, held):
    """Hold a command at an attempt until these outcomes are committed, then kill it."""
    with project.start(*arguments, launch=("within-attempt", attempt)) as command:
        command.until(lambda: [step for step in steps_held(project) if step in held] == held)
        command.process.kill()
        command.wait()


def test_what_runs_at_ctrl_c_is_finished_and_kept_and_no_step_is_done_twice(tmp_path):
    project = Project(tmp_path / "project", [item(0), item(1)], workflow=WORKFLOW)
    project.shut()
    with project.start(*project.batch) as command:
        command.until(lambda: count_lines(project.log) >= 2)
        project.open()
        command.until(lambda: count_lines(project.log) >= 40)
        project.shut()
        command.send(signal.SIGINT)
        command.until_said("starting nothing new")
        project.open()
        assert command.wait() == 130, command.err
    assert len(steps_held(project)) == starts(project.log).total()
    assert project.run("resume", RUN).code == 0
    assert problems(project, project.exported(), whole=whole_of(tmp_path, project.items)) == []


def test_an_item_that_is_cancelled_half_way_keeps_its_finished_steps_for_its_retry(tmp_path):
    project = Project(tmp_path / "project", [item(0, ms=5), item(1, ms=5)], workflow=WORKFLOW)
    with project.start(*project.batch) as command:
        command.until(lambda: count_lines(project.log) >= 40)
        project.shut()
        assert project.run("cancel", RUN, "--item", "job-00").code == 0
        command.until(lambda: [run for run in project.told("runs")["runs"] if run["counts"]["cancelled"]])
        project.open()
        command.wait()
    found = {row["id"]: row for row in project.exported()}
    assert [found["job-00"]["status"], found["job-01"]["status"]] == ["cancelled", "succeeded"]
    lines, before = count_lines(project.log), set(steps_held(project))
    assert project.run("retry", RUN, "--item", "job-00").code == 0
    whole = whole_of(tmp_path, project.items)
    assert problems(project, project.exported(), whole=whole, committed=[(lines, before)]) == []


def test_a_retry_does_not_repeat_the_finished_steps_of_an_item_that_failed(tmp_path):
    failing = item(0, fails={"close": "first", "debate@2/solve": "once"})
    project = Project(tmp_path / "project", [failing, item(1)], workflow=WORKFLOW)
    assert project.run(*project.batch).code == 3
    lines = count_lines(project.log)
    assert project.run("retry", RUN).code == 0
    assert started_since(project, lines) == ["close"]
    whole = whole_of(tmp_path, project.items)
    assert [row["output"] for row in project.exported()] == [whole[each["id"]]["output"] for each in project.items]


def test_after_a_change_of_one_node_only_it_and_what_depends_on_it_is_done_again(tmp_path):
    given = [item(0, fails={"each[5]/look": "always", "each[7]/join": "always"}), item(1)]
    project = Project(tmp_path / "project", given, workflow=WORKFLOW)
    assert project.run(*project.batch).code == 0
    lines = count_lines(project.log)
    changed = WORKFLOW.replace('given: "${each.results}"', 'given: ["${each.results}", 2]')
    (project.folder / "workflow.yaml").write_text(changed)
    refused = project.run("resume", RUN)
    assert refused.code == 2, refused
    assert "risky" in refused.err
    assert project.run("resume", RUN, "--on-change", "invalidate").code == 0
    again = started_since(project, lines)
    assert {path.partition("@")[0] for path in again} == {"risky", "debate", "send", "close"}
    assert len(again) == 2 * (1 + 3 * 2 + 1 + 1)


def test_a_retry_or_a_change_that_is_killed_is_gone_on_with_and_repeats_nothing_that_is_finished(tmp_path):
    project = Project(
        tmp_path / "project", [item(0, fails={"debate@1/solve": "first"}), item(1)], concurrency=1, workflow=WORKFLOW
    )
    assert project.run(*project.batch).code == 3
    lines = count_lines(project.log)
    assert project.run("retry", RUN, launch=("before-end", 4)).is_killed
    assert project.run("resume", RUN).code == 0
    again = started_since(project, lines)
    assert {path.partition("@")[0] for path in again} == {"debate", "send", "close"}
    assert len(again) <= 3 * 2 + 1 + 1 + 2 * project.concurrency
    text = WORKFLOW.replace('given: "${debate.best}"', 'given: ["${debate.best}"]')
    (project.folder / "workflow.yaml").write_text(text)
    lines = count_lines(project.log)
    held_then_killed(project, "resume", RUN, "--on-change", "invalidate", attempt=2, held=[("job-00", "send")] * 2)
    done = project.run("resume", RUN)
    assert done.code == 0, done
    assert started_since(project, lines) == ["send", "close", "send", "close"]


def test_a_change_after_a_kill_concerns_the_finished_steps_of_unfinished_items_too(tmp_path):
    project = Project(tmp_path / "project", [item(0)], concurrency=1, workflow=WORKFLOW)
    held_then_killed(project, *project.batch, attempt=8, held=[("job-00", "open"), ("job-00", "each[0]/look")])
    text = (project.folder / "workflow.yaml").read_text()
    (project.folder / "workflow.yaml").write_text(
        text.replace('given: ["${part}", "${opened}"]', 'given: ["${part}", 2]')
    )
    refused = project.run("resume", RUN)
    assert refused.code == 2, refused
    lines = count_lines(project.log)
    assert project.run("resume", RUN, "--on-change", "invalidate").code == 0
    assert "open" not in started_since(project, lines)


def test_a_job_that_is_killed_in_a_batch_of_ten_thousand_goes_on_with_what_is_not_finished(tmp_path):
    batch = ', batch: {items: "${parts}", parallel: true, max_concurrent: 50}'
    text = workflow(node("each", '"${item}"', more=batch)) + 'outputs: {count: "${each.success_count}"}\n'
    project = Project(tmp_path / "project", [item(0, parts=10_000, pieces=0)], concurrency=8, workflow=text)
    with project.start(*project.batch) as command:
        command.until(lambda: count_lines(project.log) >= 2 * 4_000)
        command.process.kill()
        command.wait()
    lines, before = count_lines(project.log), len(steps_held(project))
    assert before >= 4_000 - 2 * project.concurrency
    assert project.run("resume", RUN).code == 0
    assert len(started_since(project, lines)) == 10_000 - before
    assert starts(project.log).total() <= 10_000 + 2 * project.concurrency
    assert [row["output"] for row in project.exported()] == [{"count": 10_000}]


def test_a_job_that_gets_further_each_time_is_not_taken_for_what_kills_the_process(tmp_path):
    project = Project(tmp_path / "project", [item(0)], concurrency=2, workflow=WORKFLOW)
    assert project.run(*project.batch, launch=("before-attempt", 10)).is_killed
    for _ in range(4):
        assert project.run("resume", RUN, launch=("before-attempt", 8)).is_killed
    done = project.run("resume", RUN)
    assert done.code == 0, done
    assert problems(project, project.exported(), whole=whole_of(tmp_path, project.items), committed=[(0, set())]) == []


def test_a_step_that_kills_the_process_each_time_fails_its_item_and_no_other(tmp_path):
    text = workflow(node("first"), node("second", '"${first.result}"'))
    project = Project(tmp_path / "project", [item(0, ms=0), item(1, ms=0)], concurrency=1, workflow=text)
    assert project.run(*project.batch, launch=("after-attempt", 2)).is_killed
    for _ in range(2):
        assert project.run("resume", RUN, launch=("after-attempt", 1)).is_killed
    assert project.run("resume", RUN).code == 3
    assert [row["error"] and row["error"]["kind"] for row in project.exported()] == ["crash", None]


BESIDE = workflow(
    node("begin"),
    node("send", ms=300, more=", effect: unsafe"),
    node("fail", '"${begin.result}"'),
    edges=edge("begin", "send") + edge("begin", "fail"),
)


def test_a_step_that_must_not_happen_twice_and_ran_beside_one_that_failed_is_ambiguous_in_a_retry(tmp_path):
    project = Project(tmp_path / "project", [item(0, fails={"fail": "first"}, ms=20)], workflow=BESIDE)
    assert project.run(*project.batch).code == 3
    assert project.run("retry", RUN).code == 3
    assert starts(project.log)["job-00", "send"] == 1
    (row,) = project.exported()
    assert row["error"]["kind"] == "ambiguous"
    assert project.run("retry", RUN, "--item", "job-00").code == 0
    assert starts(project.log)["job-00", "send"] == 2


def test_what_may_have_happened_is_not_done_by_the_retry_of_a_later_failure(tmp_path):
    send = node("send", ms=400, more=", effect: unsafe, timeout: 0.1")
    edges = edge("send", "mend", "error") + edge("mend", "last")
    text = workflow(send, node("mend", '"${send.error.kind}"'), node("last", '"${mend.result}"'), edges=edges)
    project = Project(tmp_path / "project", [item(0, fails={"last": "first"})], workflow=text)
    assert project.run(*project.batch).code == 3
    lines = count_lines(project.log)
    assert project.run("retry", RUN).code == 0
    assert started_since(project, lines) == ["last"]


def test_what_was_under_way_at_a_kill_and_must_not_happen_twice_is_ambiguous_after_a_change_too(tmp_path):
    text = workflow(
        node("begin"), node("send", '"${begin.result}"', more=", effect: unsafe"), node("last", '"${send.result}"')
    )
    project = Project(tmp_path / "project", [item(0), item(1)], concurrency=1, workflow=text)
    assert project.run(*project.batch, launch=("before-end", 5)).is_killed
    assert ("job-01", "send") in starts(project.log)
    (project.folder / "workflow.yaml").write_text(text.replace('given: "${send.result}"', 'given: ["${send.result}"]'))
    lines = count_lines(project.log)
    assert project.run("resume", RUN, "--on-change", "invalidate").code == 3
    assert started_since(project, lines) == ["last"]
    assert [row["error"] and row["error"]["kind"] for row in project.exported()] == [None, "ambiguous"]


@pytest.mark.parametrize("fails", ["", "once"])
def test_while_a_commit_hangs_no_more_steps_are_begun_than_twice_the_concurrency(tmp_path, fails):
    batch = ', retry: {attempts: 2, wait_s: 0, backoff: fixed}, batch: {items: "${parts}", parallel: true, max_concurrent: 100}'
    text = workflow(node("each", '"${item}"', more=batch))
    given = item(0, parts=100, pieces=0, ms=1, fails={f"each[{i}]": fails for i in range(100)})
    project = Project(tmp_path / "project", [given], concurrency=4, workflow=text)
    with project.start(*project.batch, launch=("within-commit", 3)) as command:
        command.until(lambda: count_lines(project.log))
        wait_quiet(project.log)
        command.process.kill()
        command.wait()
    assert starts(project.log).total() - rows_held(project) <= 2 * project.concurrency
    assert project.run("resume", RUN).code == 0


def test_which_items_of_a_batch_were_done_when_it_failed_is_the_same_after_a_kill(tmp_path):
    each = node("each", '"${item}"', ms='"${item.ms}"', more=', batch: {items: "${parts}", parallel: true}')
    mend = node("mend", '["${each.success_count}", "${each.cancelled_count}"]')
    edges = edge("each", "mend", "error") + edge("mend", "last")
    text = workflow(each, mend, node("last", '"${mend.result}"'), edges=edges)
    given = {**item(0, fails={"each[1]": "always"}), "parts": [{"ms": 500}, {"ms": 100}, {"ms": 0}]}
    project = Project(tmp_path / "project", [given], workflow=text)
    held_then_killed(project, *project.batch, attempt=5, held=[("job-00", "mend")])
    lines = count_lines(project.log)
    assert project.run("resume", RUN).code == 0
    assert started_since(project, lines) == ["last"]


def looping(*ms, timeout, edges=""):
    """A workflow whose loop has rounds of so many milliseconds each, and an item for it."""
    loop = node(
        "debate", '"${__round__}"', ms='"${parts[${__round__}]}"', more=f", loop: {{max: 20, timeout: {timeout}}}"
    )
    given = '"${debate.error.kind}"' if edges else '["${debate.stop}", "${debate.round_count}"]'
    text = workflow(loop, node("next", given), node("last", '"${next.result}"'), edges=edges)
    return text + f"outputs: {{ended: {given}}}\n", {**item(0), "parts": [0, *ms]}


def test_a_loop_whose_time_was_up_before_a_kill_does_not_go_on_after_it(tmp_path):
    text, given = looping(0, 0, 2500, timeout=1.2)
    project = Project(tmp_path / "project", [given], workflow=text)
    held_then_killed(project, *project.batch, attempt=5, held=[("job-00", "next")])
    lines = count_lines(project.log)
    assert project.run("resume", RUN).code == 0
    assert started_since(project, lines) == ["last"]
    assert [row["output"] for row in project.exported()] == [{"ended": ["deadline", 2]}]


def test_a_loop_that_is_killed_before_it_is_committed_that_its_time_was_up_has_the_rest_of_its_time(tmp_path):
    text, given = looping(0, 0, 2500, timeout=1.2)
    project = Project(tmp_path / "project", [given], workflow=text)
    assert project.run(*project.batch, launch=("before-row", 3)).is_killed
    lines = count_lines(project.log)
    assert project.run("resume", RUN).code == 0
    assert started_since(project, lines) == ["debate@3", "next", "last"]
    assert [row["output"] for row in project.exported()] == [{"ended": ["deadline", 2]}]


def test_a_loop_that_was_killed_has_no_new_time_for_what_it_had_done(tmp_path):
    """Its second round would end in time if the time of the first, which took nearly all, did not count."""
    text, given = looping(1500, 1500, timeout=2)
    project = Project(tmp_path / "project", [given], workflow=text)
    held_then_killed(project, *project.batch, attempt=2, held=[("job-00", "debate@1")])
    assert project.run("resume", RUN).code == 0
    assert [row["output"] for row in project.exported()] == [{"ended": ["deadline", 1]}]


def test_a_loop_that_came_to_no_round_in_its_time_has_failed_after_a_kill_too_and_has_its_time_anew_in_a_retry(
    tmp_path,
):
    text, given = looping(1500, timeout=0.5, edges=edge("debate", "next", "error") + edge("next", "last"))
    project = Project(tmp_path / "project", [{**given, "fails": {"last": "first"}}], workflow=text)
    held_then_killed(project, *project.batch, attempt=3, held=[("job-00", "next")])
    lines = count_lines(project.log)
    assert project.run("resume", RUN).code == 3
    assert started_since(project, lines) == ["last"]
    lines = count_lines(project.log)
    assert project.run("retry", RUN).code == 0
    assert started_since(project, lines) == ["debate@1", "last"]
