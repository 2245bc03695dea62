"""Models from the command line: a prompt over a source, a model chosen for a run, and what is known of models."""

import json
import subprocess

import pytest

from support.command import COMMAND, environment, rows, write_items

SCRIPT = """
rules:
  - {contains: bad, fault: refusal}
  - {contains: "who", answer: "${item}"}
  - {model: gone, fault: model_missing}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "graphmill.yaml").write_text(
        "models: {fast: scripted/quick}\nroles: {judge: fast}\nproviders: {scripted: {address: s.yaml}}\n"
    )
    (tmp_path / "s.yaml").write_text(SCRIPT)
    write_items(tmp_path, [{"id": "a", "text": "tea"}, {"id": "b", "text": "ham"}])
    return tmp_path


def run(project, *arguments, cwd=None, **variables):
    env = environment(XDG_CONFIG_HOME=str(project / "nobody"), **variables)
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=60, cwd=cwd or project, env=env, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def outputs(project):
    return {row["id"]: row["output"] for row in rows(project / "out.jsonl")}


def test_a_prompt_is_asked_for_each_item_with_no_workflow_file(project):
    code, _, err = run(
        project, "batch", "--prompt", "Translate: ${text}${mark}", "mark=!", "--model", "fast", "-s", "items.jsonl", "-o", "out.jsonl"
    )
    assert (code, outputs(project)) == (0, {"a": {"response": "Translate: tea!"}, "b": {"response": "Translate: ham!"}})
    assert "prompt · run " in err
    assert "scripted/quick" in err


def test_such_a_run_can_be_resumed_and_retried_without_its_prompt(project):
    write_items(project, [{"id": "a", "text": "tea"}, {"id": "b", "text": "bad"}])
    assert run(project, "batch", "--prompt", "${text}", "-m", "fast", "-s", "items.jsonl", "--run-id", "r")[0] == 3
    code, out, _ = run(project, "resume", "r")
    assert (code, "everything was done already" in out) == (3, True)
    (project / "s.yaml").write_text("rules: []\n")
    assert run(project, "retry", "r", "-o", "out.jsonl")[0] == 0
    assert outputs(project) == {"a": {"response": "tea"}, "b": {"response": "bad"}}


def test_a_field_that_may_be_missing_has_what_stands_behind_it(project):
    code, _, _ = run(project, "batch", "--prompt", '${title ?? "none"}: ${text}', "-m", "fast", "-s", "items.jsonl", "-o", "out.jsonl")
    assert (code, outputs(project)["a"]) == (0, {"response": "none: tea"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["batch", "-s", "items.jsonl"], "name a workflow file, or give --prompt and --model"),
        (["batch", "--prompt", "x", "-s", "items.jsonl"], "no model is named"),
        (["batch", "--prompt", "${text", "-m", "fast", "-s", "items.jsonl"], "--prompt: "),
        (["batch", "w.yaml", "--prompt", "x", "-m", "fast", "-s", "items.jsonl"], "--prompt and the workflow 'w.yaml' are both given"),
        (["batch", "--prompt", "x", "-m", "fst", "-s", "items.jsonl"], "no model 'fst'; did you mean 'fast'"),
        (["batch", "--prompt", "x", "-m", "fast", "-m", "scripted/b", "-s", "items.jsonl"], "is given twice"),
        (["batch", "--prompt", "x", "-m", "judge=fast", "-s", "items.jsonl"], "has no node of the role 'judge'"),
        (["batch", "--prompt", "x", "-m", "=fast", "-s", "items.jsonl"], "a model is written NAME or ROLE=NAME"),
        (["batch", "plain.yaml", "--temperature", "1", "-s", "items.jsonl"], "asks no model"),
        (["models", "--test"], "--test asks one model"),
        (["models", "fst"], "did you mean 'fast'"),
    ],
)
def test_mistakes_are_exit_2_with_the_remedy(project, arguments, said):
    (project / "plain.yaml").write_text("nodes: [{id: v, type: value}]")
    code, _, err = run(project, *arguments)
    assert code == 2, err
    assert said in err


def test_a_role_s_model_and_its_params_are_chosen_for_a_run(project):
    (project / "w.yaml").write_text(
        "{inputs: {text: {}}, nodes: [{id: a, type: llm, params: {role: judge, prompt: '${text}'}},"
        " {id: b, type: llm, params: {model: scripted/other, prompt: x}}], outputs: {a: '${a.model}', b: '${b.model}'}}"
    )
    chosen = [[], ["-m", "judge=scripted/x"], ["-m", "scripted/y"], ["-m", "scripted/y", "-m", "judge=scripted/x"]]
    found = [json.loads(run(project, "run", "w.yaml", "text=hi", "--json", *each)[1])["output"] for each in chosen]
    assert [(each["a"], each["b"]) for each in found] == [("quick", "other"), ("x", "other"), ("y", "y"), ("x", "y")]


def test_a_run_goes_on_with_the_model_that_was_chosen_for_it(project):
    (project / "w.yaml").write_text("{inputs: {text: {}}, nodes: [{id: a, type: llm, params: {role: judge, prompt: '${text}'}}]}")
    run(project, "batch", "w.yaml", "-m", "judge=scripted/x", "-s", "items.jsonl", "--run-id", "r")
    write_items(project, [{"id": "a", "text": "tea"}, {"id": "b", "text": "ham"}, {"id": "c", "text": "new"}])
    assert run(project, "resume", "r", "-o", "out.jsonl")[0] == 0
    assert {row["output"]["model"] for row in rows(project / "out.jsonl")} == {"x"}
    code, _, err = run(project, "batch", "w.yaml", "-s", "items.jsonl", "--run-id", "r")
    assert (code, "node 'a' changed" in err) == (2, True)


def test_what_is_known_is_listed(project):
    code, out, _ = run(project, "models", OPENAI_API_KEY="sk-planted-key")
    assert code == 0
    assert "fast   scripted/quick" in out
    assert "OPENAI_API_KEY is set" in out
    assert "sk-planted" not in out
    found = json.loads(run(project, "models", "--json")[1])
    assert found["roles"] == {"judge": {"model": "fast"}}
    assert found["providers"]["scripted"]["protocol"] == "scripted"


def test_settings_are_found_from_a_folder_below(project):
    (project / "deep" / "er").mkdir(parents=True)
    assert "fast   scripted/quick" in run(project, "models", cwd=project / "deep" / "er")[1]


def test_a_mistake_in_the_settings_is_told_with_its_line(project):
    (project / "graphmill.yaml").write_text("models:\n  fast: scripted/quick\nmodel: {a: b}\n")
    code, _, err = run(project, "models")
    assert code == 2
    assert "graphmill.yaml:3:1: settings: unknown key 'model'; did you mean 'models'?" in err


def test_a_model_is_asked_on_request(project):
    code, out, _ = run(project, "models", "fast", "--check", "--test")
    assert code == 0
    assert "does not list quick" in out
    assert "from quick" in out


def test_one_that_does_not_answer_is_exit_69(project):
    code, out, _ = run(project, "models", "scripted/gone", "--test")
    assert code == 69
    assert "no such model" in out
