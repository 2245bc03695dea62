"""A node with a ``loop`` block: its rounds until a stop condition holds, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import Permanent, cut
from graphmill.core.result import Failure
from graphmill.core.usage import to_nano
from graphmill.engine.jobs.program import Decision, Program
from graphmill.graph.node_type import Output
from graphmill.graph.run.repeats import EarlierTexts
from graphmill.graph.run.scope import Meter, NodeFailed, Scope
from graphmill.graph.template import text_of

if TYPE_CHECKING:
    from graphmill.graph.graph import LoopRule

MAX_ROUNDS = 1000
RunRound = Callable[[Scope, str], Program]
Content = Callable[[], bytes]


def run_loop(
    rule: LoopRule, scope: Scope, path: str, run_round: RunRound, *, content_in: Callable[[Scope], Content]
) -> Program:
    """Run rounds until one of the rule's conditions holds; return the loop's Output, or raise NodeFailed.

    ``content_in`` returns a function that hashes everything that decides a round in a scope.
    """
    loop = _Loop(rule, scope, path, run_round)
    if loop.timeout_s is None:
        yield from loop.rounds()
    else:
        yield from _run_until_deadline(loop, loop.timeout_s, f"{path}#deadline", content_in(loop.scope_of(1)))
    return loop.output()


def _run_until_deadline(loop: _Loop, timeout_s: float, name: str, content: Content) -> Program:
    """Run rounds until they end or time out; a time-out is recorded with the number of finished rounds."""
    timed = _TimedLoop(loop, timeout_s)
    if (yield Decision(name, content=content)) is not None:
        timed.add(_wait_for_recorded_deadline(loop, name, content))
    yield timed
    if timed.failure is not None:
        raise timed.failure
    if timed.is_expired:
        # Without a finished round the loop has failed, and a retry starts with its full time again.
        yield Decision(name, loop.round_count, content=content, is_temporary=not loop.round_count)
        loop.end_at_deadline()


def _wait_for_recorded_deadline(loop: _Loop, name: str, content: Content) -> Program:
    """Wait for the moment at which the loop timed out before a restart; return whether it has come as far as then."""
    rounds = yield Decision(name, loop.round_count, content=content)
    return _EXPIRED if rounds == loop.round_count else None


class _Loop:
    """The rounds of a node so far."""

    def __init__(self, rule: LoopRule, scope: Scope, path: str, run_round: RunRound) -> None:
        self._rule = rule
        self._scope = scope
        self._path = path
        self._run_round = run_round
        self._meter = Meter(scope.meter)
        self._done: list[Mapping[str, Any]] = []
        self._texts = {name: EarlierTexts(rule.similarity) for name in rule.repeats}
        self._best: tuple[list[Any], int] | None = None
        self._stop = ""
        self._error: Any = None
        self._max_rounds = _max_rounds(rule.max.resolve(scope.names))
        self.timeout_s = _limit("timeout", rule.timeout_s.resolve(scope.names))
        self._budget_usd = _limit("budget_usd", rule.budget_usd.resolve(scope.names))

    @property
    def round_count(self) -> int:
        """How many rounds are finished."""
        return len(self._done)

    def scope_of(self, number: int) -> Scope:
        """Return the scope of the next round."""
        return self._scope.with_names({self._rule.history: list(self._done), "__round__": number}, meter=self._meter)

    def rounds(self) -> Program:
        """Run rounds until one of the conditions holds."""
        for number in range(1, self._max_rounds + 1):
            inner = self.scope_of(number)
            try:
                output: Output = yield from self._run_round(inner, f"{self._path}@{number}")
            except NodeFailed as failed:
                if failed.is_question or self._rule.on_error == "fail" or not self._done:
                    raise
                self._stop = "error"
                self._error = failed.error()
                self._scope.flags.add("partial")
                return
            self._scope.flags.update(output.flags)
            self._stop = self._add(output.values, inner)
            if self._stop:
                return
        self._stop = "max_rounds"

    def end_at_deadline(self) -> None:
        """End with the finished rounds: the time is up, and the round that was under way is cut off."""
        if not self._done:
            raise NodeFailed.of(Permanent(f"no round finished within the loop's timeout of {self.timeout_s:g} s"))
        self._stop = "deadline"
        self._scope.flags.add("partial")

    def output(self) -> Output:
        """Return the best round, all rounds, why the loop stopped, and the error that stopped it."""
        best = len(self._done) if self._best is None else self._best[1]
        return Output(
            {
                "best": self._done[best - 1],
                "best_round": best,
                "rounds": self._done,
                "round_count": len(self._done),
                "stop": self._stop,
                "error": self._error,
            }
        )

    def _add(self, values: Mapping[str, Any], scope: Scope) -> str:
        """Add a round; return why it is the last one, or ""."""
        self._done.append(values)
        names = {**scope.names, "round": values}
        if self._rule.keep is not None:
            self._compare([key.resolve(names) for key in self._rule.keep[1]])
        for reason, value in self._rule.until.items():
            if _is_true(value.resolve(names)):
                return reason
        for reason, value in self._rule.repeats.items():
            if self._texts[reason].add(text_of(value.resolve(names))):
                return reason
        if self._budget_usd is not None and self._meter.cost_nano >= to_nano(self._budget_usd):
            return "budget"
        return ""

    def _compare(self, keys: list[Any]) -> None:
        for key in keys:
            if not isinstance(key, bool | int | float | str | None):
                raise Permanent(f"loop.keep must be a number, a string, a boolean or null, got {type(key).__name__}")
        wants_more = self._rule.keep is not None and self._rule.keep[0] == "max"
        if self._best is None or _is_better(keys, self._best[0], wants_more=wants_more):
            self._best = (keys, len(self._done))


def _max_rounds(most: Any) -> int:
    if type(most) is not int or not 1 <= most <= MAX_ROUNDS:
        raise Permanent(f"loop.max must be an integer from 1 to {MAX_ROUNDS}, got {cut(repr(most), 80)}")
    return most


def _limit(name: str, found: Any) -> float | None:
    """Return a limit that is a number above 0, or null for none."""
    if found is None or (type(found) in (int, float) and 0 < found < inf):
        return found  # type: ignore[no-any-return]
    raise Permanent(f"loop.{name} must be a number > 0 or null, got {cut(repr(found), 80)}")


def _is_true(value: Any) -> bool:
    """Treat the text "false" as false, as a branch node does."""
    return bool(value) and not (isinstance(value, str) and value.strip().lower() == "false")


def _is_better(keys: list[Any], best: list[Any], *, wants_more: bool) -> bool:
    """Compare the first keys that differ; null is the worst."""
    for key, other in zip(keys, best, strict=True):
        if key == other:
            continue
        if key is None or other is None:
            return other is None
        if isinstance(key, str) is not isinstance(other, str):
            raise Permanent(f"loop.keep cannot compare {type(key).__name__} with {type(other).__name__}")
        return bool((key > other) is wants_more)
    return False


_EXPIRED = object()


class _TimedLoop:
    """The rounds of a loop with a time-out, and what waits for a recorded one beside them."""

    def __init__(self, loop: _Loop, timeout_s: float) -> None:
        self._programs = [self._run(loop.rounds())]
        self.timeout_s: float | None = timeout_s
        self.is_stopped = False
        self.is_expired = False
        self.is_over = False
        self.failure: NodeFailed | None = None

    def add(self, program: Program) -> None:
        """Run a program beside the rounds."""
        self._programs.append(program)

    def more(self) -> Program | None:
        return self._programs.pop(0) if self._programs else None

    def ended(self, program: Program, value: Any, failure: Failure | None) -> None:
        del program
        if isinstance(value, NodeFailed):
            self.failure = value
        elif failure is not None:
            self.failure = NodeFailed(failure)
        elif value is _EXPIRED:
            self.expire()

    def expire(self) -> None:
        if not self.is_over:
            self.is_stopped = self.is_expired = True

    def _run(self, program: Program) -> Program:
        try:
            yield from program
        except NodeFailed as failed:
            return failed
        finally:
            self.is_over = True
        return None
