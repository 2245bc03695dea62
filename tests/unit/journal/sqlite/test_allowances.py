"""Allowances: what several runs share through one file, on a clock of the test's own."""

from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.core.errors import JournalError
from graphmill.engine.allowance import Learned, Return, Wish
from graphmill.engine.pace import Limits
from graphmill.engine.paces import Paces
from graphmill.journal.sqlite.allowances import SqliteAllowances

REQUEST_S = 0.1


class Answer:
    """A future that is told by the world's clock."""

    def __init__(self):
        self.value = self.error = None
        self.then = lambda _: None

    def add_done_callback(self, then):
        self.then = then

    def cancelled(self):
        return False

    def exception(self):
        return self.error

    def result(self):
        return self.value


class World:
    """Time, and what happens in it."""

    def __init__(self, folder):
        self.now, self.starts = 0.0, []
        self.allowances = SqliteAllowances(Path(folder) / "runs.db", clock=lambda: self.now)
        self._events, self._numbers = [], count()

    def at(self, time, act):
        heappush(self._events, (time, next(self._numbers), act))

    def pass_by(self, until):
        while self._events and self._events[0][0] <= until:
            self.now, _, act = heappop(self._events)
            act()


class Run:
    """A run that starts calls as soon as it may; one that is dead does nothing any more."""

    def __init__(self, world, limits, *, calls, delay_s, dies_at):
        self._world, self._calls, self._delay_s, self._dies_at = world, list(calls), delay_s, dies_at
        paces = Paces(world.allowances, clock=lambda: world.now, submit=self._submit, woken=self._go_on)
        self._pace = paces.of(limits)

    def _submit(self, function):
        answer = Answer()

        def ask():
            try:
                answer.value = function()
            except Exception as error:  # noqa: BLE001
                answer.error = error
            self._world.at(self._world.now + self._delay_s / 2, lambda: self._is_alive and answer.then(answer))

        self._world.at(self._world.now + self._delay_s / 2, ask)
        return answer

    @property
    def _is_alive(self):
        return self._world.now < self._dies_at

    def begin(self, at):
        self._world.at(at, self._go_on)

    def _go_on(self):
        now = self._world.now
        while self._calls and self._is_alive:
            most, used, takes_s = self._calls[0]
            at = self._pace.opens_at(now, most)
            if at is None or at > now:
                if at is not None:
                    self._world.at(at, self._go_on)
                return
            self._calls.pop(0)
            reserved = self._pace.started(now, most)
            self._world.starts.append((now, used))
            self._world.at(
                now + takes_s, lambda reserved=reserved, used=used: self._is_alive and self._end(reserved, used)
            )

    def _end(self, reserved, used):
        self._pace.settled(reserved, used)
        self._go_on()

    @property
    def is_done(self):
        return not self._calls


CALL = st.tuples(st.integers(0, 500), st.integers(0, 100), st.floats(0, 10)).map(
    lambda call: (call[0], call[0] * call[1] // 100, call[2])
)
RUN = st.tuples(
    st.lists(CALL, min_size=1, max_size=40),
    st.floats(0, 5),
    st.floats(0.0001, 0.05),
    st.sampled_from([3.0, 10.0, 1e9, 1e9]),
)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([(30, None), (600, None), (None, 3000), (60, 1500)]), st.lists(RUN, min_size=1, max_size=5))
def test_no_minute_holds_more_than_is_allowed_whoever_shares_it_and_dies(limits, runs):
    requests, tokens = limits
    with TemporaryDirectory() as folder:
        world = World(folder)
        given_limits = Limits(requests_per_minute=requests, tokens_per_minute=tokens, account="m@1")
        made = []
        for calls, begins_at, delay_s, dies_at in runs:
            run = Run(world, given_limits, calls=calls, delay_s=delay_s, dies_at=dies_at)
            run.begin(begins_at)
            made.append((run, dies_at))
        world.pass_by(7200.0)
        world.allowances.close()
    for begun, _ in world.starts:
        minute = [used for at, used in world.starts if begun <= at < begun + 60]
        assert requests is None or len(minute) <= requests
        assert tokens is None or sum(minute) <= tokens
    assert all(run.is_done for run, dies_at in made if dies_at > 7200)


@pytest.mark.parametrize("limits", [(60, None), (600, None), (None, 6000)])
def test_four_that_are_always_busy_use_nearly_all_of_a_limit_and_no_more(tmp_path, limits):
    requests, tokens = limits
    world, wanted = World(tmp_path), Limits(requests_per_minute=requests, tokens_per_minute=tokens, account="m@1")
    for _ in range(4):
        Run(world, wanted, calls=[(10, 10, 1.0)] * 1000, delay_s=0.004, dies_at=1e9).begin(0.0)
    world.pass_by(130.0)
    world.allowances.close()
    minutes = [
        sum(begun <= at < begun + 60 for at, _ in world.starts) for begun, _ in world.starts[:: len(world.starts) // 40]
    ]
    assert 0.97 * 600 <= max(minutes) <= 600 if requests != 60 else 58 <= max(minutes) <= 60


class Shared:
    """One file, one clock, and two that share it."""

    def __init__(self, folder):
        self.now = 100.0
        self.allowances = SqliteAllowances(folder / "runs.db", clock=lambda: self.now)

    def take(self, holder="a", **more):
        return self.allowances.take(
            Wish(**{"account": "m@1", "holder": holder, "request_s": REQUEST_S, "token_s": 0.0, **more})
        )


@pytest.fixture
def shared(tmp_path):
    made = Shared(tmp_path)
    yield made
    made.allowances.close()


def test_one_slice_is_given_at_a_time(shared):
    assert shared.take().requests == 2
    later = shared.take("b")
    assert later.slice == 0
    shared.now += later.wait_s
    assert shared.take("b").requests == 2


def test_what_is_given_back_can_be_taken_at_once_and_only_once(shared):
    slice_ = shared.take(slice_s=5.0).slice
    assert shared.take("b").wait_s > 4
    shared.allowances.give_back(
        Wish(account="m@1", holder="a", request_s=REQUEST_S, token_s=0.0, returns=(Return(slice_, 50),))
    )
    assert shared.take("b", slice_s=5.0).slice
    shared.allowances.give_back(
        Wish(account="m@1", holder="a", request_s=REQUEST_S, token_s=0.0, returns=(Return(slice_, 50),))
    )
    assert shared.take("c").wait_s > 4


def test_nobody_gives_back_what_another_holds(shared):
    slice_ = shared.take(slice_s=5.0).slice
    shared.allowances.give_back(
        Wish(account="m@1", holder="b", request_s=REQUEST_S, token_s=0.0, returns=(Return(slice_, 50),))
    )
    assert shared.take("b").wait_s > 4


def test_what_a_dead_holder_had_is_over_when_its_time_is(shared):
    lasts_s = shared.take(slice_s=5.0).lasts_s
    shared.now += lasts_s
    assert shared.take("b").slice
    assert shared.take("c").wait_s > 0


def test_accounts_do_not_share(shared):
    shared.take(slice_s=5.0)
    assert shared.take(account="m@2").slice


def test_a_clock_that_is_set_back_neither_stops_anybody_nor_lets_more_through(shared):
    shared.take(slice_s=5.0)
    shared.now -= 100
    assert 4 < shared.take("b").wait_s <= 5
    shared.now += 5
    assert shared.take("b").slice


def test_a_clock_that_is_set_back_forgets_no_tokens(shared):
    tokens = {"request_s": 0.0, "token_s": 0.06, "tokens_per_minute": 1000, "weight": 900}
    assert shared.take(**tokens).tokens == 900
    shared.now -= 100
    assert shared.take("b", **tokens).wait_s > 50


def test_tokens_used_beyond_what_was_reserved_count_too(shared):
    tokens = {"request_s": 0.0, "token_s": 0.06, "tokens_per_minute": 1000, "weight": 100}
    slice_ = shared.take(**tokens).slice
    shared.now += 10
    assert shared.take(**tokens, returns=(Return(slice_, tokens=-900),)).slice == 0


def test_sharers_are_those_of_the_last_minute(shared):
    for holder in "abc":
        shared.now += 1
        last = shared.take(holder)
    assert last.sharers == 3
    shared.now += 200
    assert shared.take("d").sharers == 1


def test_what_is_learned_is_kept_for_others(shared, tmp_path):
    shared.allowances.note(Learned("m@1", 500, None))
    other = SqliteAllowances(tmp_path / "runs.db", clock=lambda: shared.now)
    assert other.learned() == [Learned("m@1", 500, None)]
    other.close()
    assert shared.take().slice


def test_where_nobody_has_shared_nothing_is_made(tmp_path):
    assert SqliteAllowances(tmp_path / "runs.db").learned() == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_damaged_is_put_aside(tmp_path):
    (tmp_path / "runs.db-limits").write_bytes(b"no database" * 1000)
    allowances = SqliteAllowances(tmp_path / "runs.db")
    assert allowances.take(Wish(account="m@1", holder="a", request_s=1.0, token_s=0.0)).slice
    allowances.close()
    assert (tmp_path / "runs.db-limits.damaged").exists()


def test_a_file_that_is_deleted_is_made_anew_and_shared_again(shared, tmp_path):
    shared.take(slice_s=5.0)
    for path in tmp_path.glob("runs.db-limits*"):
        path.unlink()
    assert shared.take("b", slice_s=5.0).slice
    other = SqliteAllowances(tmp_path / "runs.db", clock=lambda: shared.now)
    assert other.take(Wish(account="m@1", holder="c", request_s=REQUEST_S, token_s=0.0)).wait_s > 4
    other.close()


def test_what_can_not_be_used_is_told(tmp_path):
    (tmp_path / "runs.db-limits").mkdir()
    with pytest.raises(JournalError, match=r"runs\.db-limits"):
        SqliteAllowances(tmp_path / "runs.db").take(Wish(account="m@1", holder="a", request_s=1.0, token_s=0.0))
