"""The shape that an answer must have: a JSON Schema, or a pydantic model."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from graphmill.core.errors import UsageError, message_of
from graphmill.core.json import to_json
from graphmill.core.json_schema import JsonSchema
from graphmill.graph.models.json_answer import JsonAnswer, Misfit, json_answer


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
