"""A job's output for a person: text as it is, other values by name, what is nested as indented JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from graphmill.core.json import to_json


def output_text(output: Any) -> str:
    """Give one output that is text as it is; several, or other values, each with its name."""
    if isinstance(output, str):
        return output
    if not isinstance(output, Mapping):
        return _value(output)
    values = list(output.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return "\n".join(f"{name}: {_value(value)}" for name, value in output.items())


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value if "\n" not in value else "\n" + "\n".join(f"  {line}" for line in value.split("\n"))
    return json.dumps(json.loads(to_json(value)), ensure_ascii=False, indent=2)
