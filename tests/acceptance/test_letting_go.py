"""What a run has finished with is let go at once: nothing of it is left for the garbage collector to find."""

import asyncio
import gc
from weakref import WeakSet

import pytest

import graphmill as gm

ROWS = 200


class Row:
    """An item that can be referred to weakly."""


async def on_the_loop(row):
    return type(row).__name__


def in_a_thread(row):
    return type(row).__name__


async def in_a_step(row):
    return await gm.step(on_the_loop, row)


async def in_vain(row):
    raise gm.Transient(type(row).__name__)


@pytest.fixture
def _no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def left_by(graph, item_of):
    rows = WeakSet()

    def source():
        for number in range(ROWS):
            row = Row()
            rows.add(row)
            yield gm.Job(id=str(number), graph=graph, input=item_of(row))
            del row

    policy = gm.Policy(concurrency=4, retry=gm.Retry(attempts=2, wait_s=0, cap_s=0))
    async with gm.BatchExecutor(policy).start(source()) as run:
        async for result in run.results():
            del result
        return len(rows)


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize(
    "function", [on_the_loop, in_a_thread, in_a_step, in_vain], ids=lambda function: function.__name__
)
def test_an_item_is_let_go_when_its_result_was_taken(function):
    assert asyncio.run(left_by(function, lambda row: row)) < 5


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize(
    "more",
    ["", ", batch: {items: [1, 2], parallel: true}", ", batch: {items: [1, 2]}", ", loop: {max: 2}"],
    ids=["a step", "side by side", "one by one", "rounds"],
)
def test_an_item_of_a_workflow_is_let_go_when_its_result_was_taken(flow, more):
    flow.act(on_the_loop)
    graph = flow.load(f"""
        inputs: {{row: {{required: true}}}}
        nodes:
          - {{id: first, type: python, params: {{function: acts:on_the_loop, inputs: {{row: "${{row}}"}}}}{more}}}
          - {{id: last, type: python, params: {{function: acts:on_the_loop, inputs: {{row: "${{row}}"}}}}}}
    """)
    assert asyncio.run(left_by(graph, lambda row: {"row": row})) < 5
