"""A workflow file whose functions are written beside it in the test, run through the public door."""

import asyncio
import importlib
import sys
from itertools import count
from textwrap import dedent
from types import ModuleType

import pytest

import graphmill as gm
from support.driving import Calm, by_id, drive
from support.virtual_clock import run_virtual

_numbers = count()
PROMPT = gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))
STEADY = gm.Retry(attempts=3, wait_s=1, backoff="fixed", jitter=False)


def now():
    """The loop's time, virtual or not."""
    return asyncio.get_running_loop().time()


class Flow:
    """A folder with a workflow; in its text ``acts:name`` is a function that was given to ``act``."""

    def __init__(self, folder):
        self.folder = folder
        self.module = ModuleType(f"acts_{next(_numbers)}")
        sys.modules[self.module.__name__] = self.module

    def act(self, function):
        """Let the workflow call a function by its name."""
        setattr(self.module, function.__name__, function)
        return function

    def write(self, text, name="workflow.yaml"):
        path = self.folder / name
        path.write_text(dedent(text).replace("acts:", f"{self.module.__name__}:"), encoding="utf-8")
        return path

    def load(self, text, name="workflow.yaml"):
        return gm.load(self.write(text, name))

    def problems(self, text, name="workflow.yaml"):
        """Load a workflow that has mistakes; give them."""
        with pytest.raises(gm.WorkflowError) as caught:
            self.load(text, name)
        return caught.value.problems

    def problem(self, text, name="workflow.yaml"):
        """Give the only mistake."""
        (problem,) = self.problems(text, name)
        return problem

    def result(self, text, inputs=None, **options):
        """Run one job in real time; give its result."""
        options.setdefault("policy", PROMPT)
        (result,) = gm.batch(self.load(text), [inputs or {}], **options).results()
        return result

    def output(self, text, inputs=None, **options):
        """Run one job that succeeds; give its output."""
        result = self.result(text, inputs, **options)
        assert result.error is None, f"{result.error}\n{result.error.traceback}"
        return result.output

    def failure(self, text, inputs=None, **options):
        """Run one job that fails; give why."""
        result = self.result(text, inputs, **options)
        assert result.is_failure, result
        return result.error

    def timed(self, text, inputs=None, **policy):
        """Run one job on the virtual clock; give its result. What it calls must be async."""
        return self.timed_all(text, [inputs or {}], **policy)[0]

    def timed_all(self, text, items, **policy):
        """Run jobs on the virtual clock; give their results in the order of the items."""
        policy.setdefault("retry", STEADY)
        graph = self.load(text)
        jobs = [gm.Job(id=str(number), graph=graph, input=item) for number, item in enumerate(items)]
        results, _ = run_virtual(drive(jobs, machine=Calm(), **policy))
        found = by_id(results)
        return [found[str(number)] for number in range(len(items))]

    def forget(self):
        del sys.modules[self.module.__name__]
        importlib.invalidate_caches()


def succeeded(result):
    """Give the output of a result that must have succeeded."""
    assert result.error is None, f"{result.error}\n{result.error.traceback}"
    return result.output
