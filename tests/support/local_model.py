"""The small model that tests run on this machine, and the server processes that run it."""

import os
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import graphmill.providers.local

NAME = "smollm2-135m"
_SERVER = str(Path(graphmill.providers.local.__file__).with_name("__main__.py"))
_FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphmill" / "models"


def model_file():
    """The model's file; the test is skipped where it was not downloaded."""
    path = _FOLDER / f"{NAME}.gguf"
    if not path.is_file():
        pytest.skip(f"the model is not there; run: graphmill models pull {NAME}")
    return path


def servers(of):
    """The server processes that a process has started and that still run."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            is_own = process.ppid() == of and process.status() != psutil.STATUS_ZOMBIE
            if is_own and _SERVER in process.cmdline():
                found.append(process)
    return found
