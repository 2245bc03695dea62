"""Results one by one, the progress of a program's batch, and how it says what goes on after Ctrl-C."""

import asyncio
import signal
import sys
from contextlib import aclosing, closing
from types import SimpleNamespace

import pytest

import graphmill as gm
from support import warm
from support.command import COMMAND, HANG_S, environment


async def double(n):
    return n * 2


def test_results_come_as_they_are_finished_and_a_slow_reader_holds_the_source_back():
    read = []

    def items():
        for number in range(1000):
            read.append(number)
            yield number

    async def main():
        found = []
        async for result in gm.stream(double, items(), policy=gm.Policy(concurrency=2, window=4)):
            found.append(result.output)
            assert len(read) <= len(found) + 8
        return found

    assert sorted(asyncio.run(main())) == [number * 2 for number in range(1000)]


def test_whoever_leaves_a_stream_early_has_a_paused_run_that_goes_on():
    async def first(journal):
        options = {"run_id": "s", "journal": journal, "policy": gm.Policy(concurrency=2, window=4)}
        async with aclosing(gm.stream(double, range(50), **options)) as results:
            return await anext(results)

    with closing(gm.open_journal("memory:")) as journal:
        assert asyncio.run(first(journal)).is_success
        assert str(journal.find("s").status) == "paused"
        report = gm.batch(double, range(50), run_id="s", journal=journal)
        assert report.summary() == "50/50 items succeeded"
        assert 0 < report.done_now < 50


def test_what_ends_a_batch_early_is_raised_after_the_results_before_it():
    def items():
        yield 1
        raise ValueError("broken")

    async def main():
        found = []
        with pytest.raises(gm.SourceError, match="broken"):
            async for result in gm.stream(double, items()):
                found.append(result.output)
        return found

    assert asyncio.run(main()) == [2]


def test_a_stream_takes_the_options_of_a_batch_and_no_others():
    async def main(**options):
        return [result.job_id async for result in gm.stream(double, [{"id": "a"}], **options)]

    with pytest.raises(gm.UsageError, match="did you mean 'concurrency'"):
        asyncio.run(main(concurency=3))
    with pytest.raises(gm.UsageError, match="keep_results"):
        asyncio.run(main(keep_results=True))


def test_progress_is_shown_where_it_is_asked_for_and_not_elsewhere(capsys):
    gm.batch(double, range(3))
    assert capsys.readouterr().err == ""
    seen = []
    gm.batch(double, range(3), progress=True, on_progress=seen.append)
    assert capsys.readouterr().err.splitlines()[-1].startswith("3/3 · ")
    assert seen[-1].succeeded == 3
    with pytest.raises(gm.UsageError, match="progress must be True, False or None"):
        gm.batch(double, range(3), progress="yes")


def test_in_a_notebook_one_line_below_the_cell_is_replaced(monkeypatch, capsys):
    shown = []

    class Handle:
        def update(self, data, *, raw):
            assert raw
            shown.append(data["text/plain"])

    def display(data, *, raw, display_id):
        assert raw
        assert display_id
        shown.append(data["text/plain"])
        return Handle()

    notebook = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=object()), display=SimpleNamespace(display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    gm.batch(double, range(3))
    assert "3/3 · " in shown[-1]
    assert capsys.readouterr().err == ""


PROGRAM = """
import asyncio, sys
import graphmill as gm

async def work(n):
    if n:
        print("working", flush=True)
        await asyncio.Event().wait()

gm.batch(work, range(3), run_id="night", policy=gm.Policy(concurrency=1, grace_s=0.1))
"""


def test_ctrl_c_in_a_recorded_batch_of_a_program_says_how_to_go_on(tmp_path):
    (tmp_path / "night.py").write_text(PROGRAM)
    argv = [*COMMAND[:1], "night.py"]
    process = warm.start(argv, cwd=tmp_path, env=environment(), stdout=-1, stderr=-1, start_new_session=True)
    assert process.stdout.readline() == b"working\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HANG_S)
    assert b"run night is paused: 1/3 items succeeded, 2 pending\n  " in said
    assert b"gm.batch(function, items, run_id='night')" in said
    assert b"KeyboardInterrupt" in said
