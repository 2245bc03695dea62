"""What must hold of a run's budget at every instant, by a ledger of the world's own: never exceeded, and never left unused."""

import graphmill as gm
from simulation.view import EPS


def never_more_than_the_budget(view):
    """What was spent and what calls under way may cost, those of earlier processes that died included."""
    if view.budget is not None:
        for at_s, committed in view.trace.committed:
            if view.spent_before + committed > view.budget:
                yield f"{view.spent_before} + {committed} of {view.budget} at {at_s:.3f}"


def nothing_waits_that_the_budget_has_room_for(view):
    for rest in view.trace.rests if view.budget is not None else ():
        asked = [payment for payment in view.trace.payments if payment.asked_s <= rest.at_s]
        waiting = [payment for payment in asked if min(_granted_s(payment), _over_s(payment)) > rest.at_s]
        settled = _spent(view, [payment for payment in asked if _over_s(payment) <= rest.at_s])
        running = [payment for payment in asked if _granted_s(payment) <= rest.at_s < _over_s(payment)]
        hopeful = [payment for payment in waiting if settled + payment.most <= view.budget]
        reserved = sum(payment.most for payment in running)
        if rest.waiting_for_budget != len(waiting):
            yield f"{rest.waiting_for_budget} counted as waiting at {rest.at_s:.3f}, {len(waiting)} do"
        if hopeful and settled + reserved + hopeful[0].most <= view.budget:
            yield f"{hopeful[0].most} waits at {rest.at_s:.3f} with {settled} + {reserved} of {view.budget}"
        if waiting and not running and rest.at_s < view.stopped_s:
            yield f"nothing more can be granted at {rest.at_s:.3f}, and the run goes on"


def a_run_pauses_when_nothing_fits_its_budget(view):
    payments, stopped_s = view.trace.payments, view.stopped_s
    if view.budget is not None:
        yield from (
            f"{payment.body.name} began to pay at {payment.granted_s:.3f}, after the stop"
            for payment in payments
            if payment.granted_s is not None and payment.granted_s > stopped_s + EPS
        )
    if view.trace.stopped is gm.StopReason.BUDGET:
        settled = _spent(view, payments)
        refused = [p for p in payments if p.granted_s is None and p.asked_s <= stopped_s <= _over_s(p) + EPS]
        early = [payment for payment in refused if payment.asked_s < stopped_s - EPS]
        yield from (
            f"{payment.most} was not granted, with {settled} of {view.budget} spent"
            for payment in early
            if settled + payment.most <= view.budget
        )
        if settled < view.budget and not any(settled + payment.most > view.budget for payment in refused):
            yield f"paused with {settled} of {view.budget} spent, and nothing asked for more"
        if any(_granted_s(payment) <= stopped_s < _over_s(payment) - EPS for payment in payments):
            yield "paused while a call was under way that could leave something over"


def what_was_spent_is_told(view):
    if view.scenario.recording is None:
        told_nano = sum(usage.cost_nano for usage in view.trace.statistics.usage.values())
        spent = _spent(view, view.trace.payments)
        if told_nano != spent * 1_000_000_000:
            yield f"{told_nano} nano-dollars told, {spent} dollars were spent"


def _spent(view, payments):
    return view.spent_before + sum(payment.cost for payment in payments)


def _granted_s(payment):
    return float("inf") if payment.granted_s is None else payment.granted_s


def _over_s(payment):
    return float("inf") if payment.over_s is None else payment.over_s


OF_THE_DEAD = (never_more_than_the_budget, nothing_waits_that_the_budget_has_room_for)
ALL = (*OF_THE_DEAD, a_run_pauses_when_nothing_fits_its_budget, what_was_spent_is_told)
