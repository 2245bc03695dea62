"""What the items of a fault test do to the world, written down outside the journal: one line when a call starts, one when it ends.

The function runs inside the command; everything it needs to know stands in its item and in EFFECTS, the name of the log.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from graphmill import Permanent

WORKFLOW = """
inputs:
  id: {required: true}
  ms: {required: true}
  fails: {default: ""}
nodes:
  - {id: done, type: python, params: {function: "faults.effects:work", inputs: {id: "${id}", ms: "${ms}", fails: "${fails}"}}}
outputs:
  answer: "${done.result}"
"""


def work(id, ms, fails):  # noqa: A002  an item's own words
    """Take some time and give what follows from the item.

    An item may fail ``once``, so that the next attempt goes well; ``first``, for good, but for a retry of the run; or ``always``.
    """
    unique = uuid4().hex
    write(word="start", id=id, unique=unique)
    time.sleep(ms / 1000)
    wait_at_gate(os.environ["EFFECTS"])
    if fails == "always" or (fails and is_first(id)):
        write(word="fail", id=id, unique=unique)
        raise (ValueError if fails == "once" else Permanent)("not now")
    write(word="end", id=id, unique=unique)
    return answer(id)


def gate(log):
    """Name the file that holds every call while it is there, or, if it says how many, once the log has so many lines."""
    return Path(f"{log}-gate")


def wait_at_gate(log):
    while is_shut(log):
        time.sleep(0.005)


def is_shut(log):
    try:
        return count_lines(log) >= int(gate(log).read_text() or 0)
    except FileNotFoundError:
        return False


def answer(id):  # noqa: A002
    return {"id": id, "square": sum(map(ord, id)) ** 2}


def write(**line):
    """Append with one call: what is there is whole, whenever the process dies."""
    fd = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, f"{json.dumps({**line, 'pid': os.getpid()})}\n".encode())
    finally:
        os.close(fd)


def is_first(name):
    """Tell, of all processes and calls, the first that asks for a name."""
    try:
        Path(f"{os.environ['EFFECTS']}-failed-{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Effect(NamedTuple):
    """A line of the log."""

    word: str
    id: str
    pid: int
    unique: str


def effects(path):
    """Read the log; a call that ended must have started."""
    lines = Path(path).read_bytes().splitlines() if Path(path).exists() else []
    found = [Effect(**json.loads(line)) for line in lines]
    started = {effect.unique for effect in found if effect.word == "start"}
    assert all(effect.unique in started for effect in found)
    return found


def count_lines(path):
    return Path(path).read_bytes().count(b"\n") if Path(path).exists() else 0


def starts(path):
    """Count how often each item was started."""
    return Counter(effect.id for effect in effects(path) if effect.word == "start")


def items(count, *, ms=(0,), fails=()):
    """Make items whose times go round, and of which these positions fail in that way."""
    ways = dict(fails)
    return [{"id": f"item-{i:03}", "ms": ms[i % len(ms)], "fails": ways.get(i, "")} for i in range(count)]
