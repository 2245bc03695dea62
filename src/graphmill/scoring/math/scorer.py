"""The ``math`` scorer: the final answer of a solution equals the reference answer."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from graphmill.core.json import text_or_json
from graphmill.scoring.builtin import no_answer, require_target
from graphmill.scoring.math.compare import POLICY_VERSION
from graphmill.scoring.math.expression import MOST_CHARACTERS
from graphmill.scoring.math.extract import extract_answer, extract_gold
from graphmill.scoring.math.pool import MathPool
from graphmill.scoring.score import UNDECIDED, Score


class Math:
    r"""The answer's last ``\boxed{}``, ``####``, "answer is" or number equals the target mathematically.

    Values are exact: nothing is rounded. See docs/scoring.md for what counts as equal.
    """

    version = str(POLICY_VERSION)
    packages = ("math-verify", "latex2sympy2-extended", "sympy")

    def __init__(self) -> None:
        if find_spec("math_verify") is None:
            raise ModuleNotFoundError("the math scorer needs math-verify: pip install 'graphmill[math]'")
        self._pool = MathPool()

    def __call__(self, answer: Any, target: Any) -> Score:
        """Compare them in a worker process with limits on time and memory."""
        require_target(target, "math")
        gold = extract_gold(text_or_json(target))
        found = None if answer is None else extract_answer(text_or_json(answer))
        if found is None:
            return no_answer("the text has no final answer")
        if len(found) > MOST_CHARACTERS:
            return _undecided(found[:80] + "…", f"longer than {MOST_CHARACTERS:,} characters")
        equal, limit = self._pool.compare(gold, found)
        if equal is None:
            return _undecided(found, limit)
        return Score(value=float(equal), answer=found, explanation=limit)

    async def close(self) -> None:
        """End the worker processes."""
        self._pool.close()


def _undecided(answer: str, limit: str) -> Score:
    return Score(
        value=None, answer=answer, explanation=f"the grader hit its limit: {limit}", metadata={"outcome": UNDECIDED}
    )
