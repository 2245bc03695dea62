from dataclasses import replace

import pytest

from graphmill.cli.commands.runs import runs_to_delete
from graphmill.journal.records import RunState
from graphmill.journal.sqlite.store import TemporaryStore


def runs(*changed_at, state=RunState.FINISHED):
    store = TemporaryStore()
    return [
        replace(store.create(f"run-{number}", {}), changed_at=at, state=state) for number, at in enumerate(changed_at)
    ]


def forgotten(found, **options):
    return [int(run.id.removeprefix("run-")) for run in runs_to_delete(found, now=100, **options)]


def test_a_run_is_forgotten_if_it_is_old_and_not_among_the_newest():
    found = runs(10, 20, 30, 90)
    assert forgotten(found, older_s=50, keep=0) == [0, 1, 2]
    assert forgotten(found, older_s=50, keep=2) == [0, 1]
    assert forgotten(found, older_s=None, keep=3) == [0]
    assert forgotten(found, older_s=None, keep=9) == []
    assert forgotten(found, older_s=75, keep=0) == [0, 1]


def test_a_run_that_was_gone_on_with_lately_is_not_old():
    assert forgotten(runs(99, 20), older_s=50, keep=0) == [1]


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.HELD])
def test_a_live_run_is_never_chosen(state):
    assert forgotten(runs(1, 2, state=state), older_s=50, keep=0) == []
