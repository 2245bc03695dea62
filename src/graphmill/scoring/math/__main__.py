"""A worker process of the math grader: compares the pairs that it reads, each within limits."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
from typing import Any

from graphmill.scoring.math.compare import Comparison
from graphmill.scoring.math.expression import TooComplexError
from graphmill.scoring.math.pool import READY
from graphmill.scoring.math.symbolic import same_equation, same_expression

CPU_S = 3.0
MEMORY_BYTES = 2 << 30


class _CpuLimitError(BaseException):
    """No library's ``except Exception`` may stop it."""


def main() -> None:
    """Compare pairs until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's, which closes its workers
    logging.disable(logging.ERROR)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGPROF, _raise_limit)
    comparison = Comparison(same_expression, same_equation)
    comparison.are_equal(r"\sqrt{2}+x", r"x+2^{\frac{1}{2}}")  # loads the grammar
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no reply
    out.write(READY)
    out.flush()
    for line in sys.stdin.buffer:
        gold, answer = json.loads(line)
        out.write(json.dumps(_compare(comparison, gold, answer)).encode() + b"\n")
        out.flush()


def _compare(comparison: Comparison, gold: str, answer: str) -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    # The alarm reaches Python code; where C code never returns to it, the system ends the process.
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + 2 * CPU_S) + 1, -1))
    equal: bool | None = None
    try:
        signal.setitimer(signal.ITIMER_PROF, CPU_S, 0.1)
        try:
            equal, limit = comparison.are_equal(gold, answer), ""
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except _CpuLimitError:
        limit = "CPU time"
    except (MemoryError, RecursionError):
        limit = "memory"
    except TooComplexError as error:
        limit = str(error)
    except Exception as error:  # noqa: BLE001  what a computer algebra system raises about odd input has no end
        equal, limit = False, f"not comparable: {type(error).__name__}"
    return {"equal": equal, "limit": limit}


def _raise_limit(*_: object) -> None:
    raise _CpuLimitError


if __name__ == "__main__":
    main()
