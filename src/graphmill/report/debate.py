"""A debate of agents as text: round by round what each answered, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphmill.core.json import to_json
from graphmill.core.trace import TraceStep
from graphmill.report.text import count_text


def is_debate(output: Any) -> bool:
    """Whether an output is that of a debate, as of solve-verify-judge: it has a score, and a number of rounds that ended somehow."""
    return isinstance(output, Mapping) and {"score", "rounds", "stop", "best_round"} <= output.keys()


def debate_text(output: Mapping[str, Any], steps: Sequence[TraceStep]) -> str:
    """Write a debate from its output and its steps."""
    return "\n".join([*_round_lines(steps), *_end_lines(output)])


def _round_lines(steps: Sequence[TraceStep]) -> Iterator[str]:
    number: int | None = None
    for step in steps:
        if not _is_answer(step) and step.error is None:
            continue  # such as an answer that was asked for again
        if step.round is not None and step.round != number:
            yield f"round {step.round}"
        number = step.round
        yield f"  {step.role or step.node}" + (f" · {step.model}" if step.model else "")
        yield from (f"    {line}".rstrip() for line in _answer_lines(step))


def _is_answer(step: TraceStep) -> bool:
    return isinstance(step.output, Mapping) and "response" in step.output


def _answer_lines(step: TraceStep) -> Iterator[str]:
    if step.error is not None:
        yield f"failed: {step.error.get('kind')}: {step.error.get('message')}"
        return
    answer = step.output["response"]
    if not isinstance(answer, Mapping):
        yield from str(answer).strip().split("\n")
        return
    for name, value in answer.items():
        first, *others = _value_text(value).rstrip().split("\n")
        yield f"{name}: {first}"
        yield from (f"  {line}" for line in others)


def _value_text(value: Any) -> str:
    """Write a value without the marks of JSON where that is clear."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value_text(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return "\n".join(["", *(f"- {_value_text(entry)}" for entry in value)]) if value else "none"
    return to_json(value)


def _end_lines(output: Mapping[str, Any]) -> Iterator[str]:
    ended = f"{count_text(output['rounds'], 'round')} ({output['stop']}, best {output['best_round']})"
    yield f"{ended} · score {_value_text(output['score'])}"
    if output.get("solution") is not None:
        yield f"solution: {output['solution']}"
