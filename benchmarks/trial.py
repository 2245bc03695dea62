"""A trial: one measurement in a fresh interpreter, so that no earlier one has left memory or garbage behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent
_LONGEST_S = 120


def trial(function: Callable[..., float], **arguments: Any) -> float:
    """Call a module's function in a new process and give the number it returns."""
    command = [sys.executable, "-m", "benchmarks.trial", function.__module__, function.__name__, json.dumps(arguments)]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=_LONGEST_S)
    return float(done.stdout)


def _main(module: str, name: str, arguments: str) -> None:
    print(getattr(import_module(module), name)(**json.loads(arguments)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
