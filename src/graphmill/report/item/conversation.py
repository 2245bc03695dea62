"""What was said to models and what they answered: the calls of a step, as lines and as data, and a debate of agents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphmill.core.json import text_or_json, to_json
from graphmill.core.result import TraceStep
from graphmill.core.usage import cost_usd
from graphmill.report.item.trace import visible
from graphmill.report.text import count_text

_SHORT_CHARS = 100
_LABEL_CHARS = 11
_HASH_CHARS = 12
_MOST_FIELDS = 12
_MOST_PARSED = 100_000
_WHOLE_LINE = 1_000_000
_FACTS = ("id", "model", "system_fingerprint", "service_tier", "finish_reason")

Labelled = tuple[str, str]


def conversation_lines(calls: Sequence[TraceStep], *, is_full: bool = False) -> list[str]:
    """Show the calls of one step, each with what is new in it; long texts are folded unless ``is_full``."""
    lines: list[str] = []
    before: TraceStep | None = None
    for call in calls:
        for label, text in _call_rows(call, before, is_full=is_full):
            lines += _whole(label, text) if is_full else [_folded(label, text)]
        before = call
    return lines


def _call_rows(call: TraceStep, before: TraceStep | None, *, is_full: bool) -> Iterator[Labelled]:
    if before is not None and call.attempt != before.attempt:
        yield "attempt", str(call.attempt)
    if call.request is None:
        yield "request", "not recorded"
    else:
        yield from _request_rows(call.request, before, is_full=is_full)
    if call.response is not None:
        yield from _response_rows(call.response, is_full=is_full)
    if call.problem is not None:
        yield "not used", call.problem
    if call.error is not None:
        yield "error", ": ".join(str(call.error[name]) for name in ("kind", "message") if call.error.get(name))


def _request_rows(request: Mapping[str, Any], before: TraceStep | None, *, is_full: bool) -> Iterator[Labelled]:
    past: Mapping[str, Any] = (before and before.request) or {}
    if is_full:
        for name in ("params", "tools", "schema"):
            if name in request and request[name] != past.get(name):
                yield name, to_json(request[name])
    new = _new_messages(request["messages"], past.get("messages", ()))
    is_correction = before is not None and before.problem is not None  # it only repeats the answer and the problem
    if is_full or not is_correction:
        for message in new:
            yield from _message_rows(message)


def _new_messages(messages: Sequence[Mapping[str, Any]], past: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
    """Return the messages that an earlier call has not sent."""
    if list(messages[: len(past)]) == list(past):
        return messages[len(past) :]
    return messages


def _message_rows(message: Mapping[str, Any]) -> Iterator[Labelled]:
    if message["content"] or not message.get("tool_calls"):
        yield message["role"], content_text(message["content"])
    yield from _tool_rows(message.get("tool_calls", ()))


def _tool_rows(calls: Sequence[Mapping[str, Any]]) -> Iterator[Labelled]:
    for call in calls:
        yield "calls", f"{call.get('name', '?')}({text_or_json(call.get('arguments', ''))})"


def _response_rows(response: Mapping[str, Any], *, is_full: bool) -> Iterator[Labelled]:
    if response.get("reasoning"):
        yield "reasoning", response["reasoning"]
    if response["text"] or not response.get("tool_calls"):
        yield from _answer_rows(response["text"], is_full=is_full)
    yield from _tool_rows(response.get("tool_calls", ()))
    if is_full:
        yield "received", " · ".join(f"{name} {response[name]}" for name in _FACTS if response.get(name))


def _answer_rows(text: str, *, is_full: bool) -> Iterator[Labelled]:
    """Return an answer; where it would be folded, a JSON object by its fields."""
    fields = {} if is_full or len(text) <= _SHORT_CHARS else _fields_of(text)
    if not fields:
        yield "answer", text or "(empty)"
    for number, (name, value) in enumerate(fields.items()):
        yield ("" if number else "answer"), f"{name}: {text_or_json(value)}"


def _fields_of(text: str) -> Mapping[str, Any]:
    if not text.startswith("{") or len(text) > _MOST_PARSED:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and len(found) <= _MOST_FIELDS else {}


def content_text(content: Any) -> str:
    """Return a message's content as text; an image as its type, size and hash."""
    if isinstance(content, str):
        return content
    return "\n".join(map(_part_text, content))


def _part_text(part: Mapping[str, Any]) -> str:
    if part["type"] == "text":
        return str(part["text"])
    if "url" in part:
        return f"[image {part['url']}]"
    return f"[image {part['media_type']}, {part['bytes']:,} bytes, SHA-256 {part['sha256'][:_HASH_CHARS]}…]"


def _folded(label: str, text: str) -> str:
    """Write a text in one line: its beginning, and how long it is."""
    flat = " ".join(text[: 4 * _SHORT_CHARS].split())
    if len(text) <= 4 * _SHORT_CHARS and len(flat) <= _SHORT_CHARS:
        return _line(label, visible(flat, _WHOLE_LINE))
    lines = text.count("\n") + 1
    size = count_text(lines, "line") if lines > 1 else f"{len(text):,} characters"
    return _line(label, f"{visible(flat[:_SHORT_CHARS], _WHOLE_LINE)}… ({size}; --full)")


def _whole(label: str, text: str) -> list[str]:
    first, *others = [visible(line.expandtabs(4), _WHOLE_LINE) for line in text.split("\n")]
    return [_line(label, first), *(_line("", line) for line in others)]


def _line(label: str, text: str) -> str:
    return f"{visible(label, _LABEL_CHARS):<{_LABEL_CHARS}}{text}".rstrip()


def call_record(call: TraceStep) -> dict[str, Any]:
    """Return a model call as data; docs/cli.md describes the fields."""
    usage = call.usage
    return {
        "id": call.id,
        "path": call.path,
        "node": call.node,
        "role": call.role,
        "round": call.round,
        "generation": call.generation,
        "attempt": call.attempt,
        "model": call.model,
        "request": call.request,
        "response": call.response,
        "problem": call.problem,
        "error": call.error,
        "cached": call.cached,
        "usage": None if usage is None else usage.to_json(),
        "cost_usd": None if usage is None else cost_usd(usage.cost_nano, usage.unpriced),
        "began_s": round(call.began_s, 6),
        "duration_s": round(call.duration_s, 6),
    }


# -- a debate of agents


def is_debate(output: Any) -> bool:
    """Whether an output is that of a debate such as solve-verify-judge: it has a score, rounds and how they ended."""
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
        yield from (f"    {line}".rstrip() for line in _debate_answer(step))


def _is_answer(step: TraceStep) -> bool:
    return isinstance(step.output, Mapping) and "response" in step.output


def _debate_answer(step: TraceStep) -> Iterator[str]:
    if step.error is not None:
        yield f"failed: {step.error.get('kind')}: {step.error.get('message')}"
        return
    answer = step.output["response"]
    if not isinstance(answer, Mapping):
        yield from str(answer).strip().split("\n")
        return
    for name, value in answer.items():
        first, *others = _readable(value).rstrip().split("\n")
        yield f"{name}: {first}"
        yield from (f"  {line}" for line in others)


def _readable(value: Any) -> str:
    """Write a value without the marks of JSON where that is clear."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_readable(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return "\n".join(["", *(f"- {_readable(entry)}" for entry in value)]) if value else "none"
    return to_json(value)


def _end_lines(output: Mapping[str, Any]) -> Iterator[str]:
    ended = f"{count_text(output['rounds'], 'round')} ({output['stop']}, best {output['best_round']})"
    yield f"{ended} · score {_readable(output['score'])}"
    if output.get("solution") is not None:
        yield f"solution: {output['solution']}"
