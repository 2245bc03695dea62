"""A naive reader of ``${...}``: one character after the other, nothing compiled, nothing kept."""

import json
import re

_NAME = re.compile(r"[A-Za-z_][\w-]*")
_NUMBER = re.compile(r"-?\d+")


class Missing(Exception):  # noqa: N818
    """A reference that leads nowhere."""


def resolve(value, scope):
    """Replace every template in a value; mappings by their values, not their keys."""
    if isinstance(value, str):
        return _resolve_text(value, scope)
    if isinstance(value, list):
        return [resolve(entry, scope) for entry in value]
    if isinstance(value, dict):
        return {key: resolve(entry, scope) for key, entry in value.items()}
    return value


def as_text(value):
    """Write a value as it stands in mixed text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def opened(value):
    """Give the object or array that a text holds; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        inside = json.loads(value)
    except ValueError:
        return value
    return inside if isinstance(inside, dict | list) else value


def _resolve_text(text, scope):
    parts = []
    position = 0
    while position < len(text):
        if text.startswith("$${", position):
            parts.append("${")
            position += 3
        elif text.startswith("${", position):
            end = _end_of_template(text, position + 2)
            value = _first_found(text[position + 2 : end], scope)
            if position == 0 and end == len(text) - 1:
                return value
            parts.append(as_text(value))
            position = end + 1
        else:
            parts.append(text[position])
            position += 1
    return "".join(parts)


def _end_of_template(text, position):
    """Give the position of the brace that closes it."""
    depth = 0
    while text[position] != "}" or depth > 0:
        if text[position] == '"':
            position = _end_of_quotes(text, position)
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        position += 1
    return position


def _end_of_quotes(text, position):
    position += 1
    while text[position] != '"':
        position += 2 if text[position] == "\\" else 1
    return position


def _alternatives(inside):
    found = [""]
    position = 0
    while position < len(inside):
        if inside[position] == '"':
            end = _end_of_quotes(inside, position)
            found[-1] += inside[position : end + 1]
            position = end + 1
        elif inside.startswith("??", position):
            found.append("")
            position += 2
        else:
            found[-1] += inside[position]
            position += 1
    return [alternative.strip() for alternative in found]


def _first_found(inside, scope):
    alternatives = _alternatives(inside)
    for number, alternative in enumerate(alternatives):
        if number > 0 and _is_literal(alternative):
            return json.loads(alternative)
        try:
            return _look_up(alternative, scope)
        except Missing:
            if number == len(alternatives) - 1:
                raise
    raise AssertionError("there is always one alternative")


def _is_literal(text):
    return text in ("true", "false", "null") or not _NAME.match(text)


def _look_up(path, scope):
    """Walk ``name(.name)*``, each with any number of ``[index]``."""
    value, rest = scope, f".{path}"
    while rest:
        if rest[0] == ".":
            key = _NAME.match(rest, 1)[0]
            rest = rest[1 + len(key) :]
            value = _member(value, key, path)
        elif rest.startswith("[${"):
            end = _end_of_template(rest, 3)
            value = _element(value, _first_found(rest[3:end], scope), path)
            rest = rest[end + 2 :]
        else:
            written = _NUMBER.match(rest, 1)[0]
            value = _element(value, int(written), path)
            rest = rest[2 + len(written) :]
    return value


def _member(value, name, path):
    value = opened(value)
    if isinstance(value, dict) and name in value:
        return value[name]
    raise Missing(f"${{{path}}} is missing at {name!r}")


def _element(value, index, path):
    if isinstance(index, str):
        return _member(value, index, path)
    value = opened(value)
    if isinstance(value, list) and type(index) is int and -len(value) <= index < len(value):
        return value[index]
    raise Missing(f"${{{path}}} is missing at [{index!r}]")
