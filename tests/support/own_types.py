"""Our own node types, by the names that the project declares."""

import tomllib
from pathlib import Path

DECLARED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"][
    "graphmill.nodes"
]
NAMES = sorted(DECLARED)
ALIASES = frozenset({"code"})
TYPES = [name for name in NAMES if name not in ALIASES]
