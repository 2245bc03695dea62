"""Again until: the rounds of a node, and which of them is the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import Permanent, cut
from graphmill.core.result import Failure
from graphmill.engine.jobs.program import Decision, Program
from graphmill.graph.node_type import Output
from graphmill.graph.run.scope import Meter, NodeFailed, Place
from graphmill.graph.template import text_of

if TYPE_CHECKING:
    from graphmill.graph.graph import LoopRule

MOST_ROUNDS = 1000
RunRound = Callable[[Place, str], Program]
Content = Callable[[], bytes]


def run_loop(
    rule: LoopRule, place: Place, path: str, run_round: RunRound, *, content_in: Callable[[Place], Content]
) -> Program:
    """Run rounds until one of the rule's reasons holds; give the loop's Output, or raise NodeFailed.

    ``content_in`` gives what hashes all that decides a round in a place.
    """
    loop = _Loop(rule, place, path, run_round)
    if rule.timeout_s is None:
        yield from loop.rounds()
    else:
        yield from _run_in_time(loop, rule.timeout_s, f"{path}#deadline", content_in(loop.place_of(1)))
    return loop.output()


def _run_in_time(loop: _Loop, timeout_s: float, name: str, content: Content) -> Program:
    """Run rounds until they end or the time is up; that it was is noted, with the number of rounds that were finished."""
    timed = _Timed(loop, timeout_s)
    if (yield Decision(name, content=content)) is not None:
        timed.add(_bell(loop, name, content))
    yield timed
    if timed.failure is not None:
        raise timed.failure
    if timed.is_expired:
        # Without a round the loop has failed, and a retry is to have its time anew.
        yield Decision(name, loop.round_count, content=content, is_temporary=not loop.round_count)
        loop.end("deadline")


def _bell(loop: _Loop, name: str, content: Content) -> Program:
    """Wait for the moment at which the time was up before a restart; tell whether the loop has come as far as it had then."""
    rounds = yield Decision(name, loop.round_count, content=content)
    return _RINGS if rounds == loop.round_count else None


class _Loop:
    def __init__(self, rule: LoopRule, place: Place, path: str, run_round: RunRound) -> None:
        self._rule = rule
        self._place = place
        self._path = path
        self._run_round = run_round
        self._meter = Meter(place.meter)
        self._done: list[Mapping[str, Any]] = []
        self._texts: dict[str, list[str]] = {name: [] for name in rule.repeats}
        self._best: tuple[Any, int] | None = None
        self._stop = ""

    @property
    def round_count(self) -> int:
        """How many rounds are finished."""
        return len(self._done)

    def place_of(self, number: int) -> Place:
        """Give the place of the next round."""
        return self._place.within({self._rule.history: list(self._done), "__round__": number}, meter=self._meter)

    def rounds(self) -> Program:
        for number in range(1, self._most() + 1):
            inner = self.place_of(number)
            try:
                output: Output = yield from self._run_round(inner, f"{self._path}@{number}")
            except NodeFailed as failed:
                if failed.is_question or self._rule.on_error == "fail" or not self._done:
                    raise
                self._stop = "error"
                return
            self._place.flags.update(output.flags)
            if reason := self._take(output.values, inner):
                self._stop = reason
                return
        self._stop = "max_rounds"

    def end(self, reason: str) -> None:
        """End with the rounds so far."""
        if not self._done:
            raise NodeFailed.of(Permanent(f"no round was finished within the loop's {self._rule.timeout_s:g} s"))
        self._stop = reason

    def output(self) -> Output:
        """Give what the loop has come to."""
        best = len(self._done) if self._best is None else self._best[1]
        return Output(
            {
                "best": self._done[best - 1],
                "best_round": best,
                "rounds": self._done,
                "round_count": len(self._done),
                "stop": self._stop,
            }
        )

    def _most(self) -> int:
        rule = self._rule.max
        most = rule if isinstance(rule, int) else rule.resolve(self._place.scope)
        if type(most) is not int or not 1 <= most <= MOST_ROUNDS:
            raise Permanent(f"loop.max is a whole number from 1 to {MOST_ROUNDS}, not {cut(repr(most), 80)}")
        return most

    def _take(self, values: Mapping[str, Any], place: Place) -> str | None:
        """Keep a round; tell why there is no other, if so."""
        self._done.append(values)
        scope = {**place.scope, "round": values}
        if self._rule.keep is not None:
            self._compare(self._rule.keep[1].resolve(scope))
        for reason, value in self._rule.until.items():
            if _is_true(value.resolve(scope)):
                return reason
        for reason, value in self._rule.repeats.items():
            if self._is_repeated(reason, text_of(value.resolve(scope))):
                return reason
        if self._rule.budget_usd is not None and self._meter.cost_usd >= self._rule.budget_usd:
            return "budget"
        return None

    def _compare(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise Permanent(f"loop.keep compares numbers or texts, not {type(value).__name__}")
        if self._best is None:
            self._best = (value, len(self._done))
            return
        wants_more = self._rule.keep is not None and self._rule.keep[0] == "max"
        try:
            is_better = value > self._best[0] if wants_more else value < self._best[0]
        except TypeError as error:
            raise Permanent(
                f"loop.keep can not compare {type(value).__name__} with {type(self._best[0]).__name__}"
            ) from error
        if is_better:
            self._best = (value, len(self._done))

    def _is_repeated(self, reason: str, text: str) -> bool:
        earlier = self._texts[reason]
        is_repeated = any(_is_alike(before, text, self._rule.similarity) for before in earlier)
        earlier.append(text)
        return is_repeated


def _is_true(value: Any) -> bool:
    """Take the text false as what it says, as a branch does."""
    return bool(value) and not (isinstance(value, str) and value.strip().lower() == "false")


def _is_alike(one: str, other: str, similarity: float) -> bool:
    if one == other:
        return True
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return (
        matcher.real_quick_ratio() >= similarity
        and matcher.quick_ratio() >= similarity
        and matcher.ratio() >= similarity
    )


_RINGS = object()


class _Timed:
    """The rounds of a loop that has a time of its own, and what else tells when that is up."""

    def __init__(self, loop: _Loop, timeout_s: float) -> None:
        self._programs = [self._kept(loop.rounds())]
        self.timeout_s: float | None = timeout_s
        self.is_stopped = False
        self.is_expired = False
        self.is_over = False
        self.failure: NodeFailed | None = None

    def add(self, program: Program) -> None:
        """Run something beside the rounds."""
        self._programs.append(program)

    def more(self) -> Program | None:
        return self._programs.pop(0) if self._programs else None

    def ended(self, program: Program, value: Any, failure: Failure | None) -> None:
        del program
        if isinstance(value, NodeFailed):
            self.failure = value
        elif failure is not None:
            self.failure = NodeFailed(failure)
        elif value is _RINGS:
            self.expire()

    def expire(self) -> None:
        if not self.is_over:
            self.is_stopped = self.is_expired = True

    def _kept(self, program: Program) -> Program:
        try:
            yield from program
        except NodeFailed as failed:
            return failed
        finally:
            self.is_over = True
        return None
