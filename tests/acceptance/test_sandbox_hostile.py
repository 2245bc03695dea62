"""Hostile programs never pass, never get out, and never outlive their end."""

import asyncio
import socket
import sys

import psutil
import pytest

from graphmill.sandbox import pool as sandbox_pool
from graphmill.scoring.scorer import make_scorer
from support.hostile_programs import PROGRAMS
from support.remains import nothing_left

PROBLEM = {
    "entry_point": "double",
    "tests": [
        "assert double(2) == 4",
        "assert abs(double(2.5) - 5) < 1e-9",
        "assert 5 in [double(2.5)]",
        "assert math.isclose(double(7.5), 15)",
    ],
}
RIGHT = "import math\ndef double(x): return x + x"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no sandbox elsewhere")


@pytest.fixture(scope="module")
def scorer():
    with nothing_left():
        made = make_scorer("code", None, cpu_s=1, wall_s=3, memory_mb=256)
        yield made.call
        asyncio.run(made.close())


@pytest.fixture(scope="module")
def listener():
    """A server of this machine, to which nothing may connect."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def score(scorer, program):
    return asyncio.run(scorer(answer=f"```python\n{program}\n```", problem=PROBLEM))


def processes_in_sandboxes():
    """What runs below each sandbox's outermost process: for root a second bubblewrap, the supervisor, and what a program left."""
    return {
        child.pid: child.children(recursive=True)
        for child in psutil.Process().children()
        if "bwrap" in child.name() and child.status() != psutil.STATUS_ZOMBIE
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hostile_program_never_passes_gets_out_or_outlives_its_end(name, scorer, listener, monkeypatch):
    monkeypatch.setattr(sandbox_pool, "_SPARE_S", 1)
    program, outcomes = PROGRAMS[name]
    found = score(scorer, program.replace("PORT", str(listener.getsockname()[1])))
    assert found.value == 0
    assert found.outcome in outcomes, found
    listener.settimeout(0)
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert score(scorer, RIGHT).outcome == "correct"
    assert all(len(inside) <= 2 for inside in processes_in_sandboxes().values())
