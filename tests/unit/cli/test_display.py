import io
import re
from dataclasses import replace

import pytest

from graphmill.cli import display
from graphmill.cli.display import Display
from graphmill.core.usage import Usage
from graphmill.engine.results.statistics import LaneProgress, Progress, SeriesProgress
from graphmill.report.progress import progress_line


def lane(trouble=""):
    return LaneProgress(
        key="", running=3, queued=43, limit=32, reason="", throttled_share=0.0, health="closed", trouble=trouble
    )


def reading(**changes):
    given = {
        "total": 164, "done": 118, "succeeded": 116, "failed": 1, "timed_out": 1, "cancelled": 0, "waiting": 0,
        "pending": 0, "running": 3, "queued": 43,
        "retrying": 0, "concurrency": 32, "held": None, "lanes": (), "rate": 0.6867, "eta_s": 67.0, "elapsed_s": 170.0,
    }  # fmt: skip
    return Progress(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "118/164 · 3 running · 2 failed · 41.2/min · eta 1:07"),
        ({"failed": 0, "timed_out": 0, "retrying": 4}, "116/164 · 3 running · 4 retrying · 41.2/min · eta 1:07"),
        ({"total": None, "eta_s": None, "rate": 1234.56}, "118 · 3 running · 2 failed · 1,234.6/s"),
        ({"eta_s": 7322.0}, "118/164 · 3 running · 2 failed · 41.2/min · eta 2:02:02"),
        (
            {"held": "memory 91 % in use"},
            "118/164 · 3 running · 2 failed · 41.2/min · eta 1:07 · not starting anything new: memory 91 % in use",
        ),
        (
            {"total": 1, "succeeded": 0, "series": SeriesProgress(path="score", done=1627, total=5000), "eta_s": None},
            "score 1,627/5,000 items · 3 running · 2 failed",
        ),
        (
            {"usage": {"m": Usage(cost_nano=840_000_000)}, "budget_nano": 5_000_000_000, "waiting_for_budget": 1},
            "118/164 · 3 running · 2 failed · 41.2/min · $0.84 of $5.00 · budget: 2 of 32 slots · 0 requests · 0 tokens · eta 1:07",
        ),
        ({"lanes": (lane(),)}, "118/164 · 3 running · 2 failed · 41.2/min · eta 1:07"),
        (
            {"lanes": (lane(), lane("no credit"))},
            "118/164 · 3 running · 2 failed · 41.2/min · eta 1:07 · unavailable: no credit",
        ),
    ],
)
def test_a_reading_is_one_line(changes, line):
    assert progress_line(reading(**changes)) == line


def test_on_a_narrow_terminal_the_trouble_is_cut_not_left_out():
    trouble = "local/m answered 429: You exceeded your current quota, please check your plan"
    line = progress_line(reading(lanes=(lane(trouble),)), 80)
    assert line == "118/164 · 2 failed · unavailable: local/m answered 429: You exceeded your curre…"
    assert len(line) == 80


def test_what_calls_wait_for_hides_no_failures_unless_it_could_hardly_be_read():
    limited = replace(lane(), key="local/m", waits_for="its limit of 60 requests a minute")
    assert (
        progress_line(reading(lanes=(limited,)), 80)
        == "118/164 · 2 failed · local/m: waits for its limit of 60 requests a minute"
    )
    assert (
        progress_line(reading(lanes=(limited,)), 60) == "118/164 · 2 failed · local/m: waits for its limit of 60 req…"
    )
    assert progress_line(reading(lanes=(limited,)), 40) == "118/164 · local/m: waits for its limit …"


WIDE = {
    "total": 2000,
    "succeeded": 1201,
    "failed": 3,
    "timed_out": 0,
    "running": 17,
    "retrying": 12,
    "rate": 371.4,
    "eta_s": 6122.0,
}


@pytest.mark.parametrize(
    ("width", "bar", "line"),
    [
        (120, 30, "1,204/2,000 · 17 running · 12 retrying · 3 failed · 371.4/s · eta 1:42:02"),
        (80, 6, "1,204/2,000 · 17 running · 12 retrying · 3 failed · 371.4/s · eta 1:42:02"),
        (60, 0, "1,204/2,000 · 12 retrying · 3 failed · 371.4/s · eta 1:42:02"),
        (40, 0, "1,204/2,000 · 3 failed · eta 1:42:02"),
    ],
)
def test_on_a_narrow_terminal_the_bar_shrinks_first_and_the_rest_of_time_stays(monkeypatch, width, bar, line):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(display.sys, "stderr", terminal)
    for name, value in {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    with Display() as shown:
        shown.show(reading(**WIDE))
    seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).splitlines()[0]
    assert seen == ("━" * bar + " " + line).strip()


def test_without_a_terminal_a_plain_line_is_printed_every_few_seconds(monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr(display.time, "monotonic", lambda: now)
    with Display() as shown:
        for now in (100.5, 104.9, 105.1, 106.0, 110.2):
            shown.show(reading(succeeded=int(now) - 2))
    assert capsys.readouterr().err.splitlines() == [
        "105/164 · 3 running · 2 failed · 41.2/min · eta 1:07",
        "110/164 · 3 running · 2 failed · 41.2/min · eta 1:07",
    ]


def test_a_note_can_not_write_on_the_terminal_what_it_likes(capsys):
    with Display() as shown:
        shown.note("evil \x1b[2J\nname")
    assert capsys.readouterr().err == "evil  [2J name\n"
