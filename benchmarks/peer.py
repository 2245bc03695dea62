"""A peer: another package, in an environment of its own that ``make bench`` makes, asked through a script that prints JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.figure import NotMeasuredError

_ROOT = Path(__file__).parent.parent
_LONGEST_S = 300
_ALONE = {
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks the network for prices
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True, slots=True)
class Peer:
    """One package. Its home is a new folder each time, so that nothing of the user's is read or written."""

    name: str

    def program(self, name: str) -> Path:
        """Give the path of a program of its environment; NotMeasuredError if that was not made."""
        folder = _ROOT / f".bench-{self.name}"
        if not (folder / ".installed").exists():
            raise NotMeasuredError(
                f"{self.name} is not installed; `make bench` does it, from benchmarks/peers/requirements-{self.name}.txt"
            )
        return folder / "bin" / name

    def ask(self, script: str, *arguments: object) -> dict[str, Any]:
        """Run a module of ``benchmarks.peers`` and give what it prints; NotMeasuredError says how it failed."""
        command = [self.program("python"), "-m", f"benchmarks.peers.{script}", *map(str, arguments)]
        with scratch_home() as home:
            return json.loads(answer(command, home=home, cwd=_ROOT))


def answer(command: list[Any], *, home: Path, cwd: Path) -> str:
    """Run a peer's program alone, without its reports to anyone, and give what it prints."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=alone(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=_LONGEST_S,
        )
    except subprocess.CalledProcessError as error:
        raise NotMeasuredError(f"{Path(command[0]).name} failed: {_last_line(error.stderr or error.stdout)}") from error
    except subprocess.TimeoutExpired as error:
        raise NotMeasuredError(f"{Path(command[0]).name} took more than {_LONGEST_S} s") from error
    return done.stdout


def alone(home: Path) -> dict[str, str]:
    """Give an environment in which nothing of the user's changes what is measured, such as a setting that Python is to keep no bytecode."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), **_ALONE}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


@contextmanager
def scratch_home() -> Iterator[Path]:
    """Give a folder that is gone afterwards."""
    with TemporaryDirectory(prefix="graphmill-peer-") as name:
        yield Path(name)
