"""The node types that are installed, from the command line."""

import json
from pathlib import Path

from support.command import run

PACKAGES = Path(__file__).parents[1] / "packages" / "acme"


def test_every_type_is_listed_on_a_line():
    code, out, _ = run(PACKAGES, "nodes")
    assert code == 0
    assert "python (also code)   Runs Python" in out
    assert {"branch", "end", "value", "workflow"} <= {line.split()[0] for line in out.splitlines()}


def test_a_type_is_shown_in_full_by_its_name_or_an_alias():
    code, out, _ = run(PACKAGES, "nodes", "python")
    assert code == 0
    assert "params:\n  code: text" in out
    assert "outputs:\n  result" in out
    assert run(PACKAGES, "nodes", "code")[1] == out


def test_a_wrong_name_is_exit_2_with_the_nearest():
    code, out, err = run(PACKAGES, "nodes", "pyton")
    assert (code, out) == (2, "")
    assert "did you mean 'python'?" in err


def test_types_as_json():
    found = json.loads(run(PACKAGES, "nodes", "--json")[1])
    one = json.loads(run(PACKAGES, "nodes", "python", "--json")[1])
    assert one in found["nodes"]
    assert one["aliases"] == ["code"]
    assert {"name", "type", "is_required", "default", "is_templated", "description"} == one["params"][0].keys()
    assert "result" in one["outputs"]


def test_types_of_other_packages_are_listed_and_a_broken_one_harms_no_other():
    code, out, err = run(PACKAGES, "nodes", PYTHONPATH=str(PACKAGES))
    assert code == 0
    assert "shout" in out
    assert err == "" or err.startswith("note: ")
