"""JSON as others send it, read strictly: a key that stands twice in one object, or a number that JSON lacks, is a mistake."""

from __future__ import annotations

import json
from typing import Any

from graphmill.core.json_text import with_unique_keys


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


STRICT = json.JSONDecoder(object_pairs_hook=with_unique_keys, parse_constant=_refused)
