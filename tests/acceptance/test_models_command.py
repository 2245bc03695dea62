"""Models from the command line: a prompt over a source, a model chosen for a run, and what is known of models."""

import json

import pytest

from support.command import rows, write_items
from support.command import run as run_command
from support.model_server import ModelServer, reply, said

SCRIPT = """
rules:
  - {text: bad, fault: refusal}
  - {text: "who", answer: "${item}"}
  - {model: gone, fault: model_missing}
"""

OTHERS = """
  own: {address: "http://127.0.0.1:1/v1"}
  lost: {protocol: scripted, address: lost.yaml}
  odd: {protocol: scripted, address: odd.yaml}
  bare: {protocol: openai, address: "127.0.0.1:1"}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "graphmill.yaml").write_text(
        "models: {fast: scripted/quick}\nroles: {judge: fast}\nproviders:\n  scripted: {address: s.yaml}\n"
    )
    (tmp_path / "s.yaml").write_text(SCRIPT)
    write_items(tmp_path, [{"id": "a", "text": "tea"}, {"id": "b", "text": "ham"}])
    return tmp_path


def run(project, *arguments, cwd=None, **variables):
    return run_command(cwd or project, *arguments, XDG_CONFIG_HOME=str(project / "nobody"), **variables)


def outputs(project):
    return {row["id"]: row["output"] for row in rows(project / "out.jsonl")}


def test_a_prompt_is_asked_for_each_item_with_no_workflow_file(project):
    code, _, err = run(
        project,
        "batch",
        "--prompt",
        "Translate: ${text}${mark}",
        "mark=!",
        "--model",
        "fast",
        "-s",
        "items.jsonl",
        "-o",
        "out.jsonl",
    )
    assert (code, outputs(project)) == (0, {"a": {"response": "Translate: tea!"}, "b": {"response": "Translate: ham!"}})
    assert "prompt · run " in err
    assert "scripted/quick" in err


def test_such_a_run_can_be_resumed_and_retried_without_its_prompt(project):
    write_items(project, [{"id": "a", "text": "tea"}, {"id": "b", "text": "bad"}])
    assert run(project, "batch", "--prompt", "${text}", "-m", "fast", "-s", "items.jsonl", "--run-id", "r")[0] == 3
    code, out, _ = run(project, "resume", "r")
    assert (code, "every item already has a result" in out) == (3, True)
    (project / "s.yaml").write_text("rules: []\n")
    assert run(project, "retry", "r", "--resample", "-o", "out.jsonl")[0] == 0
    assert outputs(project) == {"a": {"response": "tea"}, "b": {"response": "bad"}}


def test_a_field_that_may_be_missing_has_what_stands_behind_it(project):
    code, _, _ = run(
        project,
        "batch",
        "--prompt",
        '${title ?? "none"}: ${text}',
        "-m",
        "fast",
        "-s",
        "items.jsonl",
        "-o",
        "out.jsonl",
    )
    assert (code, outputs(project)["a"]) == (0, {"response": "none: tea"})


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("${txet}", "no item of items.jsonl has a field 'txet' (did you mean 'text'?); fields: id, text, title"),
        (
            "${text} ${sum}",
            "no item of items.jsonl has a field 'sum'; fields: id, text, title; if only some items have it, set a default",
        ),
    ],
)
def test_a_field_that_no_item_has_is_told_before_anything_is_recorded(project, prompt, said):
    write_items(project, [{"id": "a", "text": "tea"}, {"id": "b", "text": "ham", "title": "t"}])
    code, _, err = run(project, "batch", "--prompt", prompt, "-m", "fast", "-s", "items.jsonl")
    assert (code, said in err) == (2, True), err
    assert not (project / ".graphmill").exists()


@pytest.mark.parametrize(
    ("prompt", "remedy"),
    [
        ("${First name}", "give such a field another name, as in --map 'name=First name'"),
        ('${item["First name"]}', "give such a field another name, as in --map 'name=First name'"),
        (
            "${First-name}",
            "names may only have letters, digits, _ and -: give the field another name with --map NAME=COLUMN",
        ),
    ],
)
def test_of_a_column_that_no_template_can_name_the_remedy_is_told(project, prompt, remedy):
    (project / "people.csv").write_text("id,First name\n1,Ada\n")
    code, _, err = run(project, "batch", "--prompt", f"Greet {prompt}", "-m", "fast", "-s", "people.csv")
    assert (code, err.rpartition("; ")[2]) == (2, f"{remedy}\n")


def test_a_prompt_may_stand_in_a_file_and_a_schema_makes_its_answers_data(project):
    (project / "prompt.md").write_text("Rate:\n${text}\n")
    schema = {
        "type": "object",
        "properties": {"stars": {"type": "integer"}},
        "required": ["stars"],
        "description": "such as ${x}",
    }
    (project / "stars.json").write_text(json.dumps(schema))
    (project / "s.yaml").write_text(
        "rules: [{text: ham, answer: 'none'}, {text: \"Rate:\\ntea\", answer: '{\"stars\": 4}'}]\n"
    )
    arguments = [
        "batch",
        "--prompt-file",
        "prompt.md",
        "--schema",
        "stars.json",
        "-m",
        "fast",
        "-s",
        "items.jsonl",
        "-o",
        "out.jsonl",
    ]
    code, _, err = run(project, *arguments, "--run-id", "r")
    found = {row["id"]: row for row in rows(project / "out.jsonl")}
    assert (code, found["a"]["output"]) == (3, {"response": {"stars": 4}}), err
    assert (found["b"]["status"], found["b"]["error"]["answer"]) == ("failed", "none")
    manifest = json.loads(run(project, "show", "r", "--json")[1])["manifest"]
    (node,) = manifest["graph"]["written"]["nodes"]
    assert (node["params"]["prompt"], node["params"]["output_schema"]["description"]) == (
        "Rate:\n${text}",
        "such as $${x}",
    )


def test_seed_and_cache_are_chosen_for_all_calls_and_a_resume_keeps_to_them(project):
    with ModelServer(answer=lambda asked: said(f"seed {asked.data.get('seed')}")) as server:
        provider = {"protocol": "openai", "address": f"{server.url}/v1"}
        (project / "graphmill.yaml").write_text(json.dumps({"providers": {"own": provider}}))
        node = {"id": "ask", "type": "llm", "params": {"prompt": "${text}", "seed": 1, "cache": False}}
        (project / "w.yaml").write_text(json.dumps({"inputs": {"text": {}}, "nodes": [node]}))
        asking = ["batch", "w.yaml", "-m", "own/m", "-s", "items.jsonl", "-o", "out.jsonl", "--seed", "7"]
        for more, count in ((["--cache"], 2), (["--cache"], 2), (["--no-cache"], 4), ([], 6)):
            assert run(project, *asking, *more)[0] == 0
            assert len(server.asked) == count
        assert outputs(project)["a"]["response"] == "seed 7"
        write_items(project, [{"id": "a", "text": "tea"}])
        assert run(project, *asking, "--cache", "--run-id", "r")[0] == 0
        write_items(project, [{"id": "a", "text": "tea"}, {"id": "b", "text": "ham"}])
        assert run(project, "resume", "r")[0] == 0
        assert len(server.asked) == 6
        assert outputs(project)["b"]["metadata"]["cached"] is True
        assert run(project, *asking, "--no-cache", "--run-id", "r")[0] == 0  # no change of the workflow


def test_of_a_long_file_the_first_thousand_items_are_looked_at(project):
    write_items(project, [*({"id": str(number)} for number in range(1000)), {"id": "last", "text": "tea"}])
    asked = ["batch", "--prompt", "${text}", "-m", "fast", "-s", "items.jsonl", "-o", "out.jsonl"]
    code, _, err = run(project, *asked)
    assert (code, "none of the first 1,000 items of items.jsonl has a field 'text'" in err) == (2, True), err
    assert run(project, *asked, "--offset", "1")[0] == 3
    assert outputs(project)["last"] == {"response": "tea"}


def test_a_field_that_only_some_items_have_fails_the_others_alone(project):
    write_items(project, [{"id": "a"}, {"id": "b", "text": "ham"}])
    code, _, _ = run(project, "batch", "--prompt", "${text}", "-m", "fast", "-s", "items.jsonl", "-o", "out.jsonl")
    assert (code, {row["id"]: row["status"] for row in rows(project / "out.jsonl")}) == (
        3,
        {"a": "failed", "b": "succeeded"},
    )


def test_a_workflow_whose_required_input_no_item_has_is_refused_in_the_same_way(project):
    (project / "w.yaml").write_text(
        "inputs: {txet: {required: true}}\nnodes: [{id: v, type: value, params: {x: '${txet}'}}]"
    )
    code, _, err = run(project, "batch", "w.yaml", "-s", "items.jsonl")
    assert (code, "did you mean 'text'?" in err) == (2, True), err
    assert run(project, "batch", "w.yaml", "txet=a", "-s", "items.jsonl")[0] == 0


def test_a_field_may_go_by_the_name_of_the_answer(project):
    write_items(project, [{"id": "a", "question": "2+2", "answer": "4"}])
    code, _, err = run(
        project, "batch", "--prompt", "${question}: ${answer}?", "-m", "fast", "-s", "items.jsonl", "-o", "out.jsonl"
    )
    assert (code, outputs(project)) == (0, {"a": {"response": "2+2: 4?"}}), err


def test_a_prompt_that_names_no_field_is_for_one_item_unless_asked_for(project):
    asked = ["batch", "--prompt", "Translate: ", "-m", "fast", "-s", "items.jsonl"]
    code, _, err = run(project, *asked)
    assert (code, "the prompt has no ${name} field" in err, "--same-prompt" in err) == (2, True, True)
    assert [run(project, *asked, *more)[0] for more in (["--same-prompt"], ["--limit", "1"])] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["batch", "-s", "items.jsonl"], "name a workflow file, or give --prompt and --model"),
        (["batch", "--prompt", "x", "-s", "items.jsonl"], "no model given"),
        (["batch", "--prompt", "${text", "-m", "fast", "-s", "items.jsonl"], "error: prompt: '${text'"),
        (
            ["batch", "--prompt", "x", "--system", "${text", "-m", "fast", "-s", "items.jsonl"],
            "error: system: '${text'",
        ),
        (
            ["batch", "--prompt", "x", "--prompt-file", "p", "-m", "fast", "-s", "items.jsonl"],
            "--prompt and --prompt-file are both given",
        ),
        (
            ["batch", "--prompt-file", "s.yml", "-m", "fast", "-s", "items.jsonl"],
            "no file 's.yml' (did you mean 's.yaml'?)",
        ),
        (
            ["batch", "--prompt", "x", "--schema", "items.jsonl", "-m", "fast", "-s", "items.jsonl"],
            "--schema must be a .json or .yaml file",
        ),
        (
            ["batch", "--prompt", "x", "--schema", "s.yaml", "-m", "fast", "-s", "items.jsonl"],
            "error: the JSON Schema is not valid",
        ),
        (["batch", "w.yaml", "--schema", "s.yaml", "-s", "items.jsonl"], "--schema needs --prompt"),
        (
            ["batch", "--prompt-file", "empty.md", "-m", "fast", "-s", "items.jsonl"],
            "--prompt-file 'empty.md' is empty",
        ),
        (["batch", "--prompt", "x", "-m", "fst", "-s", "items.jsonl"], "no model 'fst' (did you mean 'fast'?)"),
        (["batch", "--prompt", "x", "-m", "fast", "-m", "scripted/b", "-s", "items.jsonl"], "two models given for"),
        (["batch", "--prompt", "x", "-m", "judge=fast", "-s", "items.jsonl"], "has no node of the role 'judge'"),
        (["batch", "--prompt", "x", "-m", "=fast", "-s", "items.jsonl"], "a model must be NAME or ROLE=NAME"),
        (["batch", "plain.yaml", "--temperature", "1", "-s", "items.jsonl"], "calls no model"),
        (["models", "--test"], "--test needs a model"),
        (["models", "openai"], "no model 'openai': it is a provider; write openai/"),
        (
            ["batch", "--prompt", "x", "-m", "own/m", "-s", "items.jsonl"],
            "providers.own in graphmill.yaml has no known protocol",
        ),
        (
            ["batch", "--prompt", "${text}", "-m", "bare/m", "-s", "items.jsonl"],
            "calls bare/m: cannot call bare/m: its address must be http://",
        ),
        (
            ["batch", "--prompt", "${text}", "-m", "lost/m", "-s", "items.jsonl"],
            "calls lost/m: no rehearsal file 'lost.yaml'",
        ),
        (["batch", "--prompt", "${text}", "-m", "odd/m", "-s", "items.jsonl"], "odd.yaml:1:"),
    ],
)
def test_mistakes_are_exit_2_with_the_remedy(project, arguments, said):
    (project / "plain.yaml").write_text("nodes: [{id: v, type: value}]")
    (project / "odd.yaml").write_text("rules: [{contans: x}]")
    (project / "empty.md").write_text("\n")
    (project / "open.md").write_text("${text")
    with (project / "graphmill.yaml").open("a") as settings:
        settings.write(OTHERS)
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
    (project / "w.yaml").write_text(
        "{inputs: {text: {}}, nodes: [{id: a, type: llm, params: {role: judge, prompt: '${text}'}}]}"
    )
    run(project, "batch", "w.yaml", "-m", "judge=scripted/x", "-s", "items.jsonl", "--run-id", "r")
    write_items(project, [{"id": "a", "text": "tea"}, {"id": "b", "text": "ham"}, {"id": "c", "text": "new"}])
    assert run(project, "resume", "r", "-o", "out.jsonl")[0] == 0
    assert {row["output"]["model"] for row in rows(project / "out.jsonl")} == {"x"}
    code, _, err = run(project, "batch", "w.yaml", "-s", "items.jsonl", "--run-id", "r")
    assert (
        code,
        "node 'a' asks scripted/quick, not scripted/x. Use graphmill resume r, or with --on-change " in err,
    ) == (2, True)


def test_what_is_known_is_listed(project):
    code, out, _ = run(project, "models", OPENAI_API_KEY="sk-planted-key")
    assert code == 0
    assert "fast   scripted/quick" in out
    assert "OPENAI_API_KEY is set" in out
    assert "sk-planted" not in out
    found = json.loads(run(project, "models", "--json")[1])
    assert found["roles"] == {"judge": {"model": "fast"}}
    assert found["providers"]["scripted"]["protocol"] == "scripted"


def test_a_role_whose_model_is_not_there_is_listed_with_what_is_wrong(project):
    settings = project / "graphmill.yaml"
    settings.write_text(settings.read_text().replace("judge: fast", "judge: fast, critic: fst"))
    code, out, _ = run(project, "models")
    assert (code, "critic   role 'critic': no model 'fst' (did you mean 'fast'?)" in out) == (0, True), out


def test_settings_are_found_from_a_folder_below(project):
    (project / "deep" / "er").mkdir(parents=True)
    assert "fast   scripted/quick" in run(project, "models", cwd=project / "deep" / "er")[1]


def test_a_mistake_in_the_settings_is_told_with_its_line(project):
    (project / "graphmill.yaml").write_text("models:\n  fast: scripted/quick\nmodel: {a: b}\n")
    code, _, err = run(project, "models")
    assert code == 2
    assert "graphmill.yaml:3:1: settings: unknown key 'model' (did you mean 'models'?)" in err


def test_a_model_is_asked_on_request(project):
    code, out, _ = run(project, "models", "fast", "--check", "--test")
    assert code == 0
    assert "does not list quick" in out
    assert "from quick" in out


def test_one_that_does_not_answer_is_exit_69(project):
    code, out, _ = run(project, "models", "scripted/gone", "--test")
    assert code == 69
    assert "no such model" in out


def test_a_role_is_shown_and_asked_as_a_name_is(project):
    code, out, _ = run(project, "models", "judge", "--test")
    assert (code, out.splitlines()[:2]) == (0, ["judge", "  model      scripted/quick"])
    assert "from quick" in out


def test_of_an_address_from_the_environment_host_and_port_are_told(project):
    _, out, _ = run(project, "models", OPENAI_BASE_URL="http://me:planted@127.0.0.1:8123/v1?key=planted")
    assert "http://127.0.0.1:8123 (OPENAI_BASE_URL)" in out
    assert "planted" not in out


@pytest.mark.parametrize(
    ("more", "variables", "said"),
    [
        (
            "",
            {},
            "check the key: none was sent; write providers: {own: {key: {env: NAME}}} in graphmill.yaml",
        ),
        (", key: {env: OWN_KEY}", {"OWN_KEY": "sk-planted"}, "check the key in OWN_KEY"),
    ],
)
def test_a_refused_key_is_told_with_its_variable_and_the_provider_s_own_name(project, more, variables, said):
    with ModelServer() as server:
        server.answer = lambda _: reply({"error": {"message": "Incorrect API key provided"}}, 401)
        (project / "graphmill.yaml").write_text(
            f"providers: {{own: {{protocol: openai, address: '{server.url}/v1'{more}}}}}"
        )
        code, out, _ = run(project, "models", "own/m", "--check", "--test", **variables)
    assert code == 69
    assert f"check      own returned 401: Incorrect API key provided; {said}" in out
    assert f"test       own/m returned 401: Incorrect API key provided; {said}" in out


def test_a_server_that_is_not_there_is_told_with_its_place_and_the_remedy(project):
    code, out, _ = run(project, "models", "openai/m", "--test", OPENAI_BASE_URL="http://127.0.0.1:1/v1")
    assert code == 69
    assert "cannot connect: Connection refused (127.0.0.1:1); check the address, and that a server runs there" in out
