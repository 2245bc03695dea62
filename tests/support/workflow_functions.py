"""Functions that random workflows call by name: pure but for their failures, which depend on what they are given and on nothing else."""

import asyncio
import json
from collections import Counter

import graphmill as gm

FALSY = [0, "", False, None, []]
listeners = []  # each is called, with nothing, whenever a function is
_tries = Counter()


def _tell():
    for listener in listeners:
        listener()


def add_one(n):
    _tell()
    return n + 1


async def double(n):
    _tell()
    await asyncio.sleep(0)
    return n % 1000 * 2


def total(numbers):
    _tell()
    return sum(numbers)


def length(value):
    _tell()
    return len(value)


def concatenate(left, right):
    _tell()
    return f"{left}{right}"


async def describe(value):
    _tell()
    await asyncio.sleep(0)
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def count_to(n):
    _tell()
    return list(range(n % 6))


def array_text(n):
    """JSON text of a list, as a program prints it: with a newline at its end."""
    _tell()
    return json.dumps(count_to(n)) + "\n"


def object_text(n):
    _tell()
    return json.dumps({"n": n, "list": count_to(n)})


def falsy(n):
    _tell()
    return FALSY[n % len(FALSY)]


def is_given(value):
    _tell()
    return 0 if value is None else 1


def pluck(rows):
    """The results of a batch, or of a loop's rounds, without what stands beside them."""
    _tell()
    return [row["result"] for row in rows]


def spoil(numbers):
    """Change what was given, in place, as careless code does."""
    _tell()
    numbers.append(len(numbers))
    numbers[0] = -1
    return numbers


def critique(n):
    """One of three texts: two that nearly agree, and one that does not."""
    _tell()
    return ["the proof lacks its last step", "the proof lacks its last steps", "quite another remark on it"][n % 3]


def fail_on_odd(n):
    """Fail for good."""
    _tell()
    if n % 2:
        raise gm.Permanent(f"{n} is odd")
    return n


async def fail_on_thirds(n):
    """Fail in a way that might go well next time, and never does."""
    _tell()
    await asyncio.sleep(0)
    if n % 3 == 0:
        raise gm.Transient(f"{n} is a multiple of three")
    return n


def break_on_thirds(n):
    """Fail as a bug does, for good."""
    _tell()
    return n + 6 // (n % 3)


def flaky(n, times):
    """Fail the first ``times`` attempts of a step."""
    _tell()
    key = gm.idempotency_key()
    _tries[key] += 1
    if _tries[key] <= times:
        raise gm.Transient(f"attempt {_tries[key]} of {n}")
    return n


flaky.fails_first = lambda n, times: times
flaky.in_the_end = lambda n, times: n
