"""Scorers as reward functions, in the form in which TRL's trainers call one."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from graphmill.api.complete import complete
from graphmill.core.errors import UsageError, describe_error
from graphmill.scoring.scorer import Scorer, find_scorer, make_scorer

_TARGETS = ("solution", "ground_truth", "answer", "target")
_MOST_AT_ONCE = 8  # calls of a scorer that says nothing about its concurrency


class RewardFunction:
    """Scores completions: ``reward(completions=[…], solution=[…])`` returns a float each, None for a failure.

    Completions are texts or lists of messages; of these the last assistant message counts. Any other column of the
    dataset may be given, as a list of the same length; anything else is ignored.
    """

    def __init__(self, scorer: Scorer, remake: tuple[Any, ...], target: str | None) -> None:
        self._scorer = scorer
        self._remake = remake
        self._target = target
        self._has_warned = False
        self.__name__ = scorer.name  # by which a trainer logs it

    def __call__(self, *, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Score each completion."""
        if not completions:
            return []
        lists = {name: column for name, column in columns.items() if _is_column(column, len(completions))}
        targets = self._targets(lists, columns, len(completions))
        items = [
            {
                "answer": text_of_completion(completion),
                "target": targets[at],
                "problem": _problem(lists, at),
                "trace": None,
                "complete": complete,
            }
            for at, completion in enumerate(completions)
        ]
        if self._scorer.is_async:
            with ThreadPoolExecutor(1) as thread:  # the trainer's own thread may have a running event loop
                return thread.submit(asyncio.run, self._score_all(items)).result()
        with ThreadPoolExecutor(self._scorer.concurrency or os.cpu_count() or 1) as threads:
            return list(threads.map(self._score, items))

    def __reduce__(self) -> tuple[Any, ...]:
        return self._remake

    def close(self) -> None:
        """End the scorer's worker processes, which otherwise end with this process."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._scorer.close()).result()

    def _score(self, item: Mapping[str, Any]) -> float | None:
        try:
            return self._scorer.score(item).value
        except Exception as error:  # noqa: BLE001  a scorer may be user code, and one answer must not end a training
            self._warn(error)
            return None

    async def _score_all(self, items: Sequence[Mapping[str, Any]]) -> list[float | None]:
        slots = asyncio.Semaphore(self._scorer.concurrency or _MOST_AT_ONCE)

        async def score(item: Mapping[str, Any]) -> float | None:
            async with slots:
                try:
                    return (await self._scorer.score_async(item)).value
                except Exception as error:  # noqa: BLE001
                    self._warn(error)
                    return None

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(score(item)) for item in items]
        return [task.result() for task in tasks]

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"the scorer {self._scorer.name} failed, so that a reward is None (said once): {describe_error(error)}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _targets(self, lists: Mapping[str, Sequence[Any]], columns: Mapping[str, Any], count: int) -> Sequence[Any]:
        if "target" not in self._scorer.takes:
            return [None] * count
        wanted = _TARGETS if self._target is None else (self._target,)
        name = next((name for name in wanted if name in lists), None)
        if name is not None:
            return lists[name]
        if found := next((name for name in wanted if name in columns), None):
            raise UsageError(f"{found} must be a list of {count} values, one for each completion")
        if "problem" in self._scorer.takes:
            return [None] * count
        raise UsageError(
            f"reward {self._scorer.name} needs the right answers: a column {' or '.join(wanted)}; "
            "name another with gm.reward(…, target='column')"
        )


def reward(scorer: str | Callable[..., Any], *, target: str | None = None, **options: Any) -> RewardFunction:
    """Return a scorer as a reward function for a trainer such as TRL's GRPOTrainer.

    ``scorer`` is a name such as "math" or "code", "module:function" or a function; ``options`` are the scorer's.
    ``target`` names the column of right answers, by default solution, ground_truth, answer or target. A scorer that
    takes the problem gets the column ``problem`` if it holds mappings, else all columns of the row.

    Example: ``GRPOTrainer(model, reward_funcs=gm.reward("math"), train_dataset=problems)``
    """
    if not isinstance(scorer, str):
        if options:
            raise UsageError(f"a function takes no options, got {', '.join(options)}; use functools.partial")
        found = find_scorer(scorer)
    else:
        found = make_scorer(scorer, **options) if options else find_scorer(scorer)
    return RewardFunction(found, (partial(reward, scorer, target=target, **options), ()), target)


def text_of_completion(completion: Any) -> str:
    """Return the text of a completion: itself, or the content of the last assistant message."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Mapping):
        completion = [completion]
    if isinstance(completion, Sequence):
        said = [
            each for each in completion if isinstance(each, Mapping) and each.get("role", "assistant") == "assistant"
        ]
        return _content(said[-1].get("content")) if said else ""
    raise UsageError(f"a completion must be text or a list of messages, got {completion!r:.80}")


def _content(content: Any) -> str:
    if isinstance(content, str | None):
        return content or ""
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def _is_column(value: Any, count: int) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == count


def _problem(lists: Mapping[str, Sequence[Any]], at: int) -> Any:
    row = {name: column[at] for name, column in lists.items()}
    given = row.get("problem")
    return given if isinstance(given, Mapping) else row
