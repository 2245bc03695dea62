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
_LOST_BACKSLASH = re.compile(r"(?<![\b\f])[\b\f](?=[A-Za-z])")
_CONTROL = re.compile(r"\\(?:[bf]|u00)")  # how JSON may write them
_LATEX = {"\b": r"\b", "\f": r"\f"}
_MOST_TRIED = 100  # places at which a value may begin; text that is full of brackets is no answer


class Misfit(ValueError):  # noqa: N818  it is no fault, but an answer to be asked for again
    """Why an answer is not valid; the model gets this text when it is asked again."""


class JsonAnswer(NamedTuple):
    """A value, and what was repaired: a ``fence`` or ``text`` around it was dropped, ``latex`` was restored."""

    value: Any
    repaired: str | None


def json_answer(text: str) -> JsonAnswer:
    """Read the JSON value of an answer; Misfit if there is none, or more than one."""
    value, repaired = _unwrapped(text)
    if not _CONTROL.search(text):
        return JsonAnswer(value, repaired)
    try:
        restored = _with_latex(value)
    except RecursionError:
        raise Misfit("the answer is nested too deep") from None
    if restored == value:
        return JsonAnswer(value, repaired)
    return JsonAnswer(restored, f"{repaired}, latex" if repaired else "latex")


def _with_latex(value: Any) -> Any:
    r"""Restore LaTeX backslashes that JSON read as escapes: ``"\boxed"`` (backspace), ``"\frac"`` (form feed).

    Nobody means those two characters before a letter. ``\n``, ``\r`` and ``\t`` are too common to be told apart.
    """
    if isinstance(value, str):
        return _LOST_BACKSLASH.sub(lambda found: _LATEX[found[0]], value)
    if isinstance(value, list):
        return [_with_latex(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _with_latex(entry) for key, entry in value.items()}
    return value


def _unwrapped(text: str) -> JsonAnswer:
    """Read the JSON value of a text, without what is around it."""
    plain = text.strip().removeprefix("\ufeff").strip()
    try:
        return JsonAnswer(_read(plain), None)
    except Misfit as wrong:
        fenced = _fences(plain)
        if len(fenced) == 1 and (value := _fenced(fenced[0])) is not None:
            return JsonAnswer(value, "fence")
        found: list[Any] = []
        if not fenced:
            found = list(_values(plain))
        if len(found) == 1:
            return JsonAnswer(found[0], "text")
        if len(found) > 1 or len(fenced) > 1:
            raise Misfit("the answer contains more than one JSON value") from None
        raise wrong from None


def _fences(text: str) -> list[str]:
    """Return the content of the first two fences; one inside a JSON text does not end a fence."""
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
    """Return the JSON objects and lists in a text, at most two; none if it is full of other brackets."""
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
    """The schema of an answer, JSON Schema or pydantic model: ``json`` for a provider, ``text`` the same as text."""

    def __init__(self, schema: Any) -> None:
        self._model = None
        self.json: dict[str, Any] = schema
        if is_model(schema):
            self._model = schema
            self.json = schema.model_json_schema()
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
            self.instance(answer.value)
        return answer

    def instance(self, value: Any) -> Any:
        """Return an instance of the pydantic model, or the data without one."""
        if self._model is None:
            return value
        try:
            return self._model.model_validate_json(to_json(value))
        except ValueError as error:  # pydantic's are
            raise Misfit(f"the answer does not fit {self._model.__name__}: {message_of(error)}") from None


def schema_of(schema: Any) -> AnswerSchema:
    """Return the schema for a JSON Schema or a pydantic model, checked only once."""
    if is_model(schema):
        return _of_model(schema)
    return _known(to_json(schema))


@lru_cache(maxsize=100)
def _of_model(model: type) -> AnswerSchema:
    return AnswerSchema(model)


@lru_cache(maxsize=100)
def _known(text: str) -> AnswerSchema:
    return AnswerSchema(json.loads(text))


def is_model(schema: Any) -> bool:
    """Return whether this is a pydantic model; pydantic itself need not be installed."""
    return isinstance(schema, type) and hasattr(schema, "model_json_schema") and hasattr(schema, "model_validate_json")
