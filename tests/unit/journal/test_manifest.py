import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest

import graphmill as gm
from graphmill.core.json import to_json
from graphmill.engine.policy import Policy
from graphmill.journal.manifest import manifest_of, openable, policy_from
from support.worker_functions import Tools, same, same_later


def taken(**changes):
    given = {
        "graph": {"kind": "function", "function": None},
        "fingerprints": {},
        "source": None,
        "policy": gm.Policy(),
        "options": {},
    }
    return manifest_of(**{**given, **changes})


def test_a_manifest_is_plain_json_data():
    manifest = taken(
        graph={"kind": "workflow", "path": Path("a.yaml")},
        fingerprints={"node 'a'": "12"},
        source={"path": Path("rows.jsonl"), "format": "jsonl"},
        policy=gm.Policy(classify=same),
        options={"id_field": "isbn", "limit": 5, "given": {"tone": ["brisk"]}, "seed": 7, "output": None},
    )
    assert json.loads(to_json(manifest)) == manifest
    assert manifest["graph"] == {"kind": "workflow", "path": "a.yaml"}
    assert manifest["fingerprints"] == {"node 'a'": "12"}
    assert manifest["source"] == {"path": "rows.jsonl", "format": "jsonl"}
    assert manifest["options"] == {
        "id_field": "isbn",
        "limit": 5,
        "given": {"tone": ["brisk"]},
        "seed": 7,
        "output": None,
    }
    assert manifest["seed"] == 7


def test_every_rule_of_the_policy_is_in_it():
    policy = taken(policy=gm.Policy(concurrency=7, retry=gm.Retry(attempts=2), max_failures=0.5))["policy"]
    assert set(policy) == {field.name for field in fields(Policy)}
    assert (policy["concurrency"], policy["retry"]["attempts"], policy["max_failures"]) == (7, 2, 0.5)
    assert policy["guards"]["memory"] == gm.Policy().guards.memory


def test_what_is_not_there_is_null():
    manifest = taken()
    assert (manifest["source"], manifest["seed"], manifest["graph"]) == (
        None,
        None,
        {"kind": "function", "function": None},
    )


def test_functions_are_noted_by_name_and_other_objects_by_type():
    assert taken(policy=gm.Policy(classify=same))["policy"]["classify"] == f"{same.__module__}:same"
    secret = "sk-123"

    class Client:
        def __init__(self):
            self.key = secret

        def __repr__(self):
            return self.key

    options = {
        "client": Client(),
        "made": lambda: secret,
        "set": {"b", "a"},
        "far": float("inf"),
        5: (1, True),
        "kind": gm.Kind.CRASH,
    }
    noted = taken(options=options)["options"]
    name = "test_functions_are_noted_by_name_and_other_objects_by_type.<locals>."
    assert noted == {
        "client": name + "Client",
        "made": name + "<lambda>",
        "set": ["a", "b"],
        "far": "inf",
        "5": [1, True],
        "kind": "crash",
    }


def test_the_versions_of_python_the_machine_s_kind_and_our_dependencies_are_in_it():
    versions = taken()["versions"]
    assert versions["graphmill"] == gm.__version__
    assert versions["python"] == f"{platform.python_implementation()} {platform.python_version()}"
    assert versions["platform"].startswith(platform.system())
    assert {"psutil", "pyyaml", "rich", "typer"} <= set(versions)
    assert all(isinstance(version, str) for version in versions.values())


def test_the_package_that_holds_the_function_is_in_it_if_it_goes_by_its_module_s_name():
    assert "hypothesis" in taken(graph={"kind": "function", "function": "hypothesis.strategies:just"})["versions"]
    assert set(taken(graph={"kind": "function", "function": "os.path:join"})["versions"]) == set(taken()["versions"])
    assert set(taken(graph={"kind": "function", "function": ":"})["versions"]) == set(taken()["versions"])


def test_the_commit_is_that_of_the_folder_in_which_it_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert taken()["commit"] is None
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("a" * 40)
    assert taken()["commit"] == "a" * 40


def test_neither_the_environment_nor_the_machine_s_name_gets_in(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    text = to_json(taken())
    assert "sk-of-a-test" not in text
    assert os.uname().nodename not in text


def test_the_version_of_a_package_is_noted_that_is_installed_as_an_egg(monkeypatch, tmp_path):
    (tmp_path / "an_egg-1.5.egg-info").mkdir()
    (tmp_path / "an_egg-1.5.egg-info" / "PKG-INFO").write_text(
        "Metadata-Version: 1.1\nName: an-egg\nVersion: 1.5\n\nVersion: none\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert taken(graph={"kind": "function", "function": "an_egg:made"})["versions"]["an_egg"] == "1.5"


def test_taking_it_down_takes_a_few_milliseconds():
    def seconds():
        began = time.thread_time()  # which is ours, however much others have to do
        taken(graph={"kind": "function", "function": "hypothesis:given"})
        return time.thread_time() - began

    assert min(seconds() for _ in range(5)) < 0.025  # five times what is promised


# --- the policy again ---


@pytest.mark.parametrize(
    "policy",
    [
        gm.Policy(),
        gm.Policy(
            concurrency=7,
            adaptive=True,
            retry=gm.Retry(attempts=2, backoff="linear"),
            max_failures=0.5,
            window=50,
            classify=same,
        ),
        gm.Policy(
            timeout_s=None, on_failure="fail_fast", guards=gm.Guards(memory=None), alerts=gm.Alerts(stalled_s=None)
        ),
    ],
)
def test_a_policy_is_had_again_from_its_manifest(policy):
    assert policy_from(json.loads(to_json(taken(policy=policy)))["policy"]) == policy


def test_rules_that_are_missing_are_the_usual_and_rules_that_are_unknown_are_left_out():
    assert policy_from({}) == gm.Policy()
    assert policy_from({"concurrency": 3, "later": 1, "retry": {"attempts": 2, "later": 1}}) == gm.Policy(
        concurrency=3, retry=gm.Retry(attempts=2)
    )


@pytest.mark.parametrize(
    ("classify", "reason"),
    [
        ("f.<locals>.<lambda>", "it has no name to import it by"),
        ("no_such_module_here:f", "ModuleNotFoundError"),
        ("json:no_such_name", "AttributeError"),
    ],
)
def test_a_classify_that_can_not_be_had_again_is_refused_with_the_remedy(classify, reason):
    with pytest.raises(gm.UsageError, match=rf"{reason}.*pass the policy again, as policy="):
        policy_from({"classify": classify})


# --- what can be opened again ---


@pytest.mark.parametrize(
    ("function", "name"),
    [(same, "same"), (same_later, "same_later"), (Tools.doubled, "Tools.doubled"), (Tools.made, "Tools.made")],
)
def test_a_function_that_its_name_leads_back_to_can_be_opened_again(function, name):
    assert openable(function) == f"support.worker_functions:{name}"


@pytest.mark.parametrize(
    "function", [lambda item: item, Tools(), Tools().bound, 5], ids=["lambda", "object", "method", "number"]
)
def test_any_other_can_not(function):
    assert openable(function) is None


@pytest.mark.parametrize("arguments", [["program.py"], ["-m", "program"]])
def test_a_function_of_the_program_that_was_started_can_not(tmp_path, arguments):
    text = "from graphmill.journal.manifest import openable\ndef f(item): return item\nprint('opened', openable(f))\n"
    (tmp_path / "program.py").write_text(text)
    done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "opened None\n"
