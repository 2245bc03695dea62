"""The JSON of an answer, and the schema it must fit."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

from graphmill.core.errors import UsageError, message_of
from graphmill.core.json import STRICT, to_json
from graphmill.core.json_schema import JsonSchema

_FENCE = "```"
_FENCE_OPENING = re.compile(r"```[\w+-]*[ \t]*\r?\n\s*")
_FENCE_CLOSING = re.compile(r"\s*```")
_OPENING = re.compile(r"[{\[]")
_MOST_TRIED = 100  # places at which a value may begin; text that is full of brackets is no answer


class Misfit(ValueError):  # noqa: N818  it is no fault, but an answer to be asked for again
    """Why an answer is not what was asked for, in words that the model is told."""


class JsonAnswer(NamedTuple):
    """A value, and what was left out to read it: nothing, a ``fence``, or ``text`` around it."""

    value: Any
    repaired: str | None


def json_answer(text: str) -> JsonAnswer:
    """Read the one JSON value of an answer; Misfit if there is none, or more than one."""
    plain = text.strip().removeprefix("\ufeff").strip()
    try:
        return JsonAnswer(_read(plain), None)
    except Misfit as wrong:
        fenced = _fences(plain)
        if len(fenced) == 1 and (value := _fenced(fenced[0])) is not None:
            return JsonAnswer(value, "fence")
        found = list(_values(plain)) if not fenced else []
        if len(found) == 1:
            return JsonAnswer(found[0], "text")
        if len(found) > 1 or len(fenced) > 1:
            raise Misfit("the answer holds more than one JSON value") from None
        raise wrong from None


def _fences(text: str) -> list[str]:
    """Give what stands in the first two fences; one that is within a JSON text closes none."""
    found: list[str] = []
    start = 0
    while len(found) < 2 and (opening := _FENCE_OPENING.search(text, start)):
        begin = opening.end()
        end = _end_of_value(text, begin)
        if not _FENCE_CLOSING.match(text, end):
            end = text.find(_FENCE, begin)
        if end < 0:
            break
        found.append(text[begin:end])
        start = text.index(_FENCE, end) + len(_FENCE)
    return found


def _end_of_value(text: str, begin: int) -> int:
    try:
        return STRICT.raw_decode(text, begin)[1]
    except (ValueError, RecursionError):
        return begin


def _fenced(text: str) -> Any:
    try:
        return _read(text)
    except Misfit:
        return None


def _read(text: str) -> Any:
    try:
        return STRICT.decode(text)
    except RecursionError:
        raise Misfit("the answer is nested too deep") from None
    except json.JSONDecodeError as error:
        raise Misfit(f"the answer is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValueError as error:
        raise Misfit(f"the answer is not JSON: {message_of(error)}") from None


def _values(text: str) -> list[Any]:
    """Give the objects and lists that stand in a text, at most two; none, if it is full of brackets that open none."""
    found: list[Any] = []
    start = 0
    for _ in range(_MOST_TRIED):
        opening = _OPENING.search(text, start)
        if opening is None or len(found) > 1:
            return found
        try:
            value, start = STRICT.raw_decode(text, opening.start())
            found.append(value)
        except (ValueError, RecursionError):
            start = opening.end()
    return []


class AnswerSchema:
    """``json`` is what a provider is sent, ``text`` the same as text; UsageError for what is no schema."""

    def __init__(self, schema: Any) -> None:
        self._model = schema if is_model(schema) else None
        self.json: dict[str, Any] = schema.model_json_schema() if self._model is not None else schema
        if not isinstance(self.json, dict):
            raise UsageError(f"a schema must be a JSON Schema or a pydantic model, got {schema!r:.80}")
        self.text = to_json(self.json)
        self._schema = JsonSchema(self.json) if self._model is None else None

    def read(self, text: str) -> JsonAnswer:
        """Read an answer; Misfit says what is wrong with it."""
        answer = json_answer(text)
        if self._schema is not None and (problem := self._schema.problem(answer.value)):
            raise Misfit(f"the answer does not fit the JSON Schema: {problem}")
        if self._model is not None:
            self._made(answer.value)
        return answer

    def made(self, value: Any) -> Any:
        """Give what the data stand for: an instance of the pydantic model, or the data."""
        return value if self._model is None else self._made(value)

    def _made(self, value: Any) -> Any:
        if self._model is None:
            return value
        try:
            return self._model.model_validate_json(to_json(value))
        except ValueError as error:  # pydantic's are
            raise Misfit(f"the answer does not fit {self._model.__name__}: {message_of(error)}") from None


def schema_of(schema: Any) -> AnswerSchema:
    """Give what a JSON Schema or a pydantic model stands for, looked through once however often it is used."""
    return _of_model(schema) if is_model(schema) else _known(to_json(schema))


@lru_cache(maxsize=100)
def _of_model(model: type) -> AnswerSchema:
    return AnswerSchema(model)


@lru_cache(maxsize=100)
def _known(text: str) -> AnswerSchema:
    return AnswerSchema(json.loads(text))


def is_model(schema: Any) -> bool:
    """Tell a pydantic model by what it can do: pydantic itself need not be installed."""
    return isinstance(schema, type) and hasattr(schema, "model_json_schema") and hasattr(schema, "model_validate_json")
