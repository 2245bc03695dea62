import sys
from itertools import count
from textwrap import dedent

import pytest

_numbers = count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that a workflow can import; give its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
    made = []

    def write(text):
        name = f"module_of_a_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(dedent(text), encoding="utf-8")
        made.append(name)
        return name

    yield write
    for name in made:
        sys.modules.pop(name, None)
