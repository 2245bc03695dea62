from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.job import Job
from graphmill.engine.jobs.state import JobState
from graphmill.engine.scheduling.lanes import PRIORITY_S, RequestQueue, SlotRequest, rank


def ticket(position, priority=0, now=0.0):
    job = Job(id=str(position), graph=print, priority=priority)
    owner = JobState(job, None, position=position, rank=rank(admitted_at=now, priority=priority), now=now)
    return SlotRequest(None, owner.rank, position, owner)


arrivals = st.lists(st.tuples(st.integers(-3, 3), st.floats(0, 500, allow_nan=False)), max_size=60)


@given(arrivals)
def test_tickets_leave_in_the_order_of_age_and_priority(entries):
    queue = RequestQueue()
    tickets = [ticket(position, priority, now) for position, (priority, now) in enumerate(entries)]
    for one in tickets:
        queue.push(one)
    left = [queue.pop() for _ in range(len(queue))]
    assert left == sorted(
        tickets, key=lambda one: (one.owner.admitted_at - PRIORITY_S * one.owner.job.priority, one.position)
    )


@given(st.lists(st.integers(-3, 3), max_size=40))
def test_of_those_admitted_together_higher_priority_goes_first_and_equals_keep_their_order(priorities):
    queue = RequestQueue()
    for position, priority in enumerate(priorities):
        queue.push(ticket(position, priority))
    left = [queue.pop() for _ in range(len(queue))]
    assert [one.position for one in left] == sorted(
        range(len(priorities)), key=lambda position: (-priorities[position], position)
    )


@given(st.integers(-5, 5), st.integers(-5, 5))
def test_nothing_starves_an_old_ticket_overtakes_any_newer_of_higher_priority_in_time(low, high):
    old = ticket(0, low, now=0.0)
    newer = ticket(1, high, now=PRIORITY_S * max(0, high - low) + 1)
    queue = RequestQueue()
    queue.push(newer)
    queue.push(old)
    assert queue.pop() is old


@given(arrivals.filter(bool), st.data())
def test_a_ticket_can_be_taken_out_wherever_it_stands(entries, data):
    queue = RequestQueue()
    tickets = [ticket(position, priority, now) for position, (priority, now) in enumerate(entries)]
    for one in tickets:
        queue.push(one)
    gone = data.draw(st.sampled_from(tickets))
    queue.remove(gone)
    left = [queue.pop() for _ in range(len(queue))]
    assert left == sorted((one for one in tickets if one is not gone), key=lambda one: (one.rank, one.position))
