"""A KeyboardInterrupt that user code raises itself: whose row it is, and that no other item fails by it."""

import asyncio

import pytest

import graphmill as gm
from support.command import Command, rows, write_items

FUNCTIONS = """
import asyncio

def plain(x):
    if x == 2:
        raise KeyboardInterrupt
    return x

async def later(x):
    if x == 2:
        raise KeyboardInterrupt
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return x
"""
WORKFLOW = """
inputs: {{x: {{required: true}}}}
nodes:
  - {{id: a, type: python, params: {{function: "functions:{name}", inputs: {{x: "${{x}}"}}}}}}
outputs: {{r: "${{a.result}}"}}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    write_items(tmp_path, [{"id": str(number), "x": number} for number in range(5)])
    return tmp_path


def done(project, *arguments):
    with Command(project, *arguments) as command:
        return command.wait(), command.out


def statuses(path):
    return {row["id"]: row["status"] for row in rows(path)}


ONE_FAILED = {str(number): "failed" if number == 2 else "succeeded" for number in range(5)}


def test_in_a_plain_function_of_a_workflow_it_is_that_item_s_row_and_no_other_s(project):
    (project / "wf.yaml").write_text(WORKFLOW.format(name="plain"))
    code, out = done(project, "batch", "wf.yaml", "-s", "items.jsonl", "-o", "out.jsonl")
    assert (code, out.splitlines()[0][:29]) == (3, "4/5 items succeeded, 1 failed")
    assert statuses(project / "out.jsonl") == ONE_FAILED
    error = rows(project / "out.jsonl")[2]["error"]
    assert (error["type"], error["kind"]) == ("KeyboardInterrupt", "permanent")


def test_in_an_async_function_of_a_workflow_it_ends_the_run_and_resume_does_the_others(project):
    (project / "wf.yaml").write_text(WORKFLOW.format(name="later"))
    assert done(project, "batch", "wf.yaml", "-s", "items.jsonl", "--run-id", "r")[0] == 130
    done(project, "export", "r", "first.jsonl")
    assert "failed" not in {status for item, status in statuses(project / "first.jsonl").items() if item != "2"}
    assert done(project, "resume", "r", "-o", "out.jsonl")[0] == 3
    assert statuses(project / "out.jsonl") == ONE_FAILED


def test_in_a_plain_step_it_is_the_step_s_failure():
    def interrupted():
        raise KeyboardInterrupt

    async def work(item):
        return await gm.step(interrupted) if item else item

    results = list(gm.batch(work, [0, 1, 0]).results())
    assert [result.status for result in results] == ["succeeded", "failed", "succeeded"]
    assert results[1].error.type == "KeyboardInterrupt"


def test_when_a_loop_is_closed_over_a_run_what_ran_is_cancelled_and_not_failed():
    async def forever(item):
        if item == 2:
            all_run.set()
        await asyncio.Event().wait()

    async def main():
        batch = asyncio.Task(gm.abatch(forever, range(3), journal=journal, run_id="r"))
        await all_run.wait()
        return batch  # asyncio.run now cancels all tasks, those of the attempts too

    all_run = asyncio.Event()
    journal = gm.open_journal("memory:")
    assert asyncio.run(main()).cancelled()
    report = gm.batch(lambda item: item, range(3), journal=journal, run_id="r", on_change="keep")
    assert report.summary() == "3/3 items succeeded"
