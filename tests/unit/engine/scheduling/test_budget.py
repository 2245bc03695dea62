"""The budget: in every order of events settled and reserved are within the cap, and nothing waits that could start."""

import asyncio
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.core.usage import Usage
from graphmill.engine.jobs.context import current_context
from graphmill.engine.scheduling.budget import Budget, Claim
from support.driving import jobs_of

CAP = 100
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("request"), st.integers(1, 60)),
        st.tuples(st.just("settle"), st.floats(0, 1)),
        st.tuples(st.just("withdraw"), st.integers(0, 5)),
        st.tuples(st.just("kill"), st.none()),
    ),
    max_size=80,
)


@given(EVENTS)
def test_settled_and_reserved_are_never_more_than_the_cap_also_across_kills(events):
    budget, in_flight, waiting = Budget(CAP), [], []

    def move(granted):
        for claim in granted:
            waiting.remove(claim)
            in_flight.append(claim)

    for kind, value in events:
        if kind == "request":
            claim = Claim(value)
            (in_flight if budget.request(claim) else waiting).append(claim)
        elif kind == "settle" and in_flight:
            claim = in_flight.pop(0)
            move(budget.settle(claim.nano, int(claim.nano * value)))
        elif kind == "withdraw" and value < len(waiting):
            move(budget.withdraw(waiting.pop(value)))
        elif kind == "kill":  # what was in flight counts as what was reserved
            budget, in_flight, waiting = Budget(CAP, budget.committed_nano), [], []
        assert budget.settled_nano + budget.reserved_nano == budget.committed_nano <= CAP
        assert budget.reserved_nano == sum(claim.nano for claim in in_flight)
        assert budget.waiting == len(waiting)
        assert budget.is_exhausted == (bool(waiting) and not in_flight)
        hopeful = [claim for claim in waiting if budget.settled_nano + claim.nano <= CAP]
        assert not hopeful or budget.committed_nano + hopeful[0].nano > CAP  # the first that may fit does not fit now
        assert in_flight or not hopeful


class Spender:
    """Jobs of several calls, each of which reserves, takes a while, and uses at most what it reserved."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.used = 0

    async def __call__(self, _):
        context = current_context.get()
        for _ in range(self.random.randint(1, 4)):
            most = self.random.randint(1, 400) * 1_000_000
            await context.reserve(most)
            try:
                await asyncio.sleep(self.random.random() / 500)
                used = self.random.randint(0, most)
            except BaseException:
                used = most
                raise
            finally:
                self.used += used
                context.report(Usage(requests=1, cost_nano=used), "m", reserved_nano=most)
        return True


@pytest.mark.parametrize("seed", range(15))
def test_runs_of_random_calls_keep_to_it_and_go_on_with_more(seed):
    """Each run gets a larger budget, in a journal: what one has spent counts for the next."""
    spender, random = Spender(seed), Random(seed)
    journal = gm.open_journal("memory:")
    cap, held = 1, []
    policy = {"concurrency": random.choice([1, 3, 8]), "drain_s": random.choice([0.0, 0.001, 25.0])}
    for _ in range(30):
        run = asyncio.run(_drive(journal, spender, partial(_watch, held, cap), budget_usd=cap, **policy))
        assert all(nano <= at * 1_000_000_000 for nano, at in held)
        assert sum(usage.cost_nano for usage in run.statistics().usage.values()) == spender.used
        if run.stopped is None:
            break
        assert run.stopped == "budget"
        cap += 1
    assert run.stopped is None
    journal.close()


def _watch(held, cap, run):
    """Note what is held at each change, beside the cap."""
    gate = run._engine.budget_gate
    save = gate._save_committed

    def note(nano):
        held.append((nano, cap))
        save(nano)

    gate._hold = note


async def _drive(journal, spender, watch, **policy):
    run = gm.BatchExecutor(gm.Policy(**policy), random=Random(1), journal=journal).start(
        jobs_of(spender, range(12)), run_id="r"
    )
    async with run:
        watch(run)
        [result async for result in run.results()]
    return run
