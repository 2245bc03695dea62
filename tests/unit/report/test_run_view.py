import pytest

from graphmill.journal.records import HELD, RUNNING, RunRow
from graphmill.journal.sqlite.store import TemporaryStore
from graphmill.report.run_view import run_record, status_line, status_lines, view_of
from support.journal import begin, succeeded

BEGAN = 1_800_000_000.0


class Going:
    """A run whose results are committed at set times."""

    def __init__(self, total):
        self.now = BEGAN
        self.store = TemporaryStore(clock=lambda: self.now)
        self.ledger = begin(self.store, "r", total=total)
        self._count = 0

    def finish(self, *times_s):
        for after_s in times_s:
            self.now, self._count = BEGAN + after_s, self._count + 1
            self.ledger.append([succeeded(f"item {self._count}", self._count)])

    def seen(self, after_s):
        return view_of(self.store.archive, self.store.archive.find("r"), now=BEGAN + after_s)


@pytest.mark.parametrize(
    ("times_s", "at_s", "rate", "eta_s"),
    [
        ((10, 20), 40, 2 / 40, 98 / (2 / 40)),
        ((100, 200, 300), 400, 3 / 400, 97 / (3 / 400)),
        (range(1, 31), 30, 1, 70),
        ((*range(20), *range(170, 200)), 200, 0.5, 100),
        ((), 10, 0, None),
        ((), 0, None, None),
    ],
    ids=["young", "slow", "steady", "of late", "nothing yet", "just begun"],
)
def test_the_rate_is_that_of_the_last_minute_or_if_results_are_few_since_the_process_began(times_s, at_s, rate, eta_s):
    going = Going(100)
    going.finish(*times_s)
    view = going.seen(at_s)
    assert (view.rate, view.eta_s) == (
        rate if rate is None else pytest.approx(rate),
        eta_s if eta_s is None else pytest.approx(eta_s),
    )
    assert run_record(view)["elapsed_s"] == at_s


def test_a_run_that_is_running_says_how_fast_it_goes_and_how_long_it_will_take():
    going = Going(100)
    going.finish(*range(2, 62, 2))
    assert status_line(going.seen(60)) == "run r · running · 30/100 items succeeded, 70 pending · 30.0/min · eta 2:20"
    assert status_lines(going.seen(60))[1] == "30/100 items succeeded, 70 pending · 30.0/min · eta 2:20 · 1 min 00 s"


def test_one_that_is_held_or_was_killed_does_not():
    going = Going(100)
    going.finish(10)
    going.ledger.append([RunRow(status=HELD)])
    assert status_lines(going.seen(60))[1] == "1/100 items succeeded, 99 pending · 1 min 00 s"
    going.ledger.append([RunRow(status=RUNNING)])
    going.ledger.release()
    assert status_lines(going.seen(60))[1] == "1/100 items succeeded, 99 pending · 10.0 s"
    assert run_record(going.seen(60))["rate"] is None
