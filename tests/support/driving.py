"""Short ways to drive the executor from a test."""

import asyncio
from random import Random

import graphmill as gm
from graphmill.engine.monitor.machine import Reading
from support.virtual_clock import run_virtual


def jobs_of(graph, inputs, **fields):
    return [gm.Job(id=str(index), graph=graph, input=value, **fields) for index, value in enumerate(inputs)]


class Calm:
    """A machine that has room for everything, whatever else runs on the real one."""

    def read(self):
        return Reading(memory=0.1, cpu=0.1)


def executor(*, machine=None, observers=(), on_alert=None, **policy):
    return gm.BatchExecutor(
        gm.Policy(**policy), random=Random(1), machine=machine or Calm(), observers=observers, on_alert=on_alert
    )


async def drive(jobs, *, ordered=False, bind=None, on_run=None, **policy):
    """Run jobs to their end; give the results and the run."""
    run = executor(**policy).start(jobs, bind=bind)
    async with run:
        if on_run is not None:
            on_run(run)
        results = [result async for result in run.results(ordered=ordered)]
    return results, run


def virtual(jobs, **options):
    return run_virtual(drive(jobs, **options))


def real(jobs, **options):
    return asyncio.run(drive(jobs, **options))


def by_id(results):
    return {result.job_id: result for result in results}


class Peak:
    """Counts how many are inside at once."""

    def __init__(self):
        self.now = 0
        self.highest = 0

    def __enter__(self):
        self.now += 1
        self.highest = max(self.highest, self.now)

    def __exit__(self, *_):
        self.now -= 1
