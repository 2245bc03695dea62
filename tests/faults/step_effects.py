"""A workflow of many steps, and what they do to the world: one line in a log outside the journal when a call starts, one when it ends.

A step's path is in the log as it is in the journal, so that the two can be held against each other.
"""

import json
import os
import time
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from faults.effects import is_first, wait_at_gate, write
from graphmill import Permanent
from graphmill.engine.jobs.context import find_context

WORKFLOW = """
inputs:
  id: {required: true}
  ms: {required: true}
  parts: {required: true}
  fails: {default: {}}
nodes:
  - {id: open, type: python, retry: &quick {attempts: 3, wait_s: 0.01, backoff: fixed},
     params: {function: "faults.step_effects:act", inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: "${parts}"}}}
  - id: each
    type: workflow
    retry: *quick
    batch: {items: "${parts}", as: part, parallel: true, max_concurrent: 8, error_handling: continue}
    params:
      inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", part: "${part}", opened: "${open.result}"}
      workflow:
        inputs: {id: {required: true}, ms: {required: true}, fails: {required: true}, part: {required: true}, opened: {required: true}}
        nodes:
          - {id: look, type: python,
             params: {function: "faults.step_effects:act",
                      inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: ["${part}", "${opened}"]}}}
          - {id: mend, type: python,
             params: {function: "faults.step_effects:act",
                      inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: "${look.error.kind}"}}}
          - {id: inner, type: python, batch: {items: "${part.pieces}", as: piece, parallel: true},
             params: {function: "faults.step_effects:act",
                      inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: ["${piece}", "${look.result ?? mend.result}"]}}}
          - {id: join, type: python,
             params: {function: "faults.step_effects:act",
                      inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: "${inner.results}"}}}
        edges:
          - {from: look, to: inner}
          - {from: look, to: mend, action: error}
          - {from: mend, to: inner}
          - {from: inner, to: join}
        outputs: {joined: "${join.result}"}
  - {id: risky, type: python, retry: *quick,
     params: {function: "faults.step_effects:act", inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: "${each.results}"}}}
  - {id: recover, type: python,
     params: {function: "faults.step_effects:act", inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: "${risky.error.kind}"}}}
  - id: debate
    type: workflow
    retry: *quick
    loop: {max: 3}
    params:
      inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", past: "${past}", problem: "${risky.result ?? recover.result}"}
      workflow:
        inputs: {id: {required: true}, ms: {required: true}, fails: {required: true}, past: {required: true}, problem: {required: true}}
        nodes:
          - {id: solve, type: python,
             params: {function: "faults.step_effects:act",
                      inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: ["${problem}", "${past}"]}}}
          - {id: verify, type: python,
             params: {function: "faults.step_effects:act", inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: "${solve.result}"}}}
        outputs: {solution: "${solve.result}", verdict: "${verify.result}"}
  - {id: send, type: python, effect: unsafe,
     params: {function: "faults.step_effects:act", inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: "${debate.best}"}}}
  - {id: close, type: python, retry: *quick,
     params: {function: "faults.step_effects:act", inputs: {id: "${id}", ms: "${ms}", fails: "${fails}", given: "${send.result}"}}}
edges:
  - {from: open, to: each}
  - {from: each, to: risky}
  - {from: risky, to: debate}
  - {from: risky, to: recover, action: error}
  - {from: recover, to: debate}
  - {from: debate, to: send}
  - {from: send, to: close}
outputs:
  results: "${each.results}"
  errors: "${each.errors}"
  rounds: "${debate.rounds}"
  sent: "${send.result}"
  closed: "${close.result}"
"""
UNSAFE = "send"


def act(id, ms, fails, given):  # noqa: A002  an item's own words
    """Take some time and give what follows from the step's path and what it was given.

    Of ``fails`` a path may fail ``once``, so that the next attempt goes well; ``first``, for good, but for a retry of the run; or
    ``always``.
    """
    frame = find_context()
    path = frame.path.removesuffix("/")
    call = {"id": id, "path": path, "unique": uuid4().hex}
    write(word="start", **call)
    time.sleep(ms / 1000)
    wait_at_gate(os.environ["EFFECTS"])
    way = fails.get(path, "")
    if way == "always" or (way and is_first(_hash([id, path]))):
        write(word="retry" if way == "once" else "fail", **call)
        raise (ValueError if way == "once" else Permanent)("not now")
    write(word="end", **call)
    return _hash([path, given])


def _hash(value):
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


class Effect(NamedTuple):
    """A line of the log."""

    word: str
    id: str
    path: str
    pid: int
    unique: str

    @property
    def place(self):
        """Which step of which item."""
        return self.id, self.path


def effects(path):
    """Read the log."""
    lines = Path(path).read_bytes().splitlines() if Path(path).exists() else []
    return [Effect(**json.loads(line)) for line in lines]


def starts(path):
    """Count how often each step of each item was started."""
    return Counter(effect.place for effect in effects(path) if effect.word == "start")


def item(number, *, parts=12, pieces=2, ms=0, fails=None):
    """Make an item, which is the same whenever it is made."""
    made = [{"n": i, "pieces": [f"{i}-{j}" for j in range(pieces)]} for i in range(parts)]
    return {"id": f"job-{number:02}", "ms": ms, "parts": made, "fails": fails or {}}


def catalogue():
    """The items that nights draw from: some fail for good and take their error edges, some fail at first, here and there."""
    return [item(number, ms=number % 3, fails=_fails(number)) for number in range(12)]


def _fails(number):
    found = {}
    if number % 3 == 0:
        found |= {"risky": "always", "each[5]/look": "always", "each[7]/join": "always"}
    if number % 4 == 1:
        found |= {"open": "once", "each[2]/look": "once", "each[3]/inner[1]": "once", "debate@2/verify": "once"}
    if number % 5 == 2:
        found |= {"each[0]/look": "always", "each[4]/inner[0]": "always", "each[4]/join": "once"}
    return found
