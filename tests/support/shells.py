"""Shells that a script is run by in tests, with values in the variables that it names."""

import os
import shutil
import subprocess

import pytest

from graphmill.nodes.shell.command import script_of, variable

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"]}
HANG_S = 60


def shell(name):
    """Give how a shell is started; skip the test where there is none."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return SHELLS[name]


def run(name, command, values, *, folder=None):
    """Run a command in which ``@`` stands for a template, each with its value; give the finished process."""
    script = script_of(tuple(command.split("@")))
    environment = {"PATH": os.environ["PATH"], **{variable(number): value for number, value in enumerate(values)}}
    words = [*shell(name), "-c", "--", script, "sh"]
    return subprocess.run(
        words, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG_S, check=False
    )
