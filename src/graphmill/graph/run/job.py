"""One job: its input bound, its graph run, its outputs given."""

from __future__ import annotations

from typing import Any

from graphmill.core.json import fresh
from graphmill.engine.program import Failed, Finished, Program
from graphmill.graph.run.ends import NodeFailed
from graphmill.graph.run.flow import run_flow
from graphmill.graph.run.node import run_node
from graphmill.graph.run.place import Place, Room
from graphmill.graph.run.plan import Plan
from graphmill.graph.run.sequence import outward


def run_job(plan: Plan, item: Any) -> Program:
    """Run a graph over one item."""
    place = Place(plan.bind(item), "", None, set(), Room(), plan.root, plan.models)
    try:
        output = yield from run_flow(plan, place, run_node)
    except NodeFailed as failed:
        raise Failed(plan.redact(failed.failure)) from failed
    except Exception as error:  # such as a name that is missing in an output
        raise Failed(NodeFailed.of(error, plan.redact).failure) from error
    # Whoever takes it may change it: neither the graph's constants nor another job's input are to change with it.
    given, flags = fresh(output), dict.fromkeys(sorted(place.flags), True) if place.flags else {}
    return Finished(outward(given) if place.room.is_used else given, flags)
