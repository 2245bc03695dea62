"""Rehearsals: a run whose models are answered by schemas, by rules or by a function, and that calls nobody."""

import json

import pytest

import graphmill as gm
from support.command import answered, rows, run, write_items
from support.workflows import write_workflow

VERDICT = """{type: object, required: [passed, score], additionalProperties: false,
              properties: {passed: {type: boolean}, score: {type: number, minimum: 0, maximum: 3}}}"""
DEBATE = f"""
    inputs: {{problem: {{required: true}}}}
    nodes:
    - id: debate
      type: workflow
      loop: {{max: 3, until: {{passed: "${{round.passed}}"}}}}
      params:
        inputs: {{problem: "${{problem}}"}}
        workflow:
          inputs: {{problem: {{}}}}
          nodes:
          - {{id: solve, type: llm, params: {{role: solver, prompt: "Solve: ${{problem}}"}}}}
          - {{id: verify, type: llm, params: {{role: verifier, prompt: "Check: ${{solve.response}}",
              output_schema: {VERDICT}}}}}
          outputs: {{answer: "${{solve.response}}", passed: "${{verify.response.passed}}", score: "${{verify.response.score}}"}}
    - {{id: judge, type: llm, params: {{role: judge, prompt: "Judge: ${{debate.best.answer}}", output_schema: {VERDICT}}}}}
    outputs: {{answer: "${{debate.best.answer}}", rounds: "${{debate.round_count}}", judge: "${{judge.response}}"}}
"""
RULES = r"""
seed: 1
rules:
- {role: solver, round: 1, share: 0.5, answer: 'It is \boxed{${input.ground_truth}}.'}
- {node: solve, round: 2, share: 0.8, answer: 'It is \boxed{${input.ground_truth}}.'}
- {role: solver, answer: 'It is \boxed{0}.'}
- {role: verifier, text: '\boxed{${input.ground_truth}}', answer: {passed: true, score: "${round}"}}
- {role: verif*, answer: {passed: false, score: 0}}
- {item: p1*, role: judge, answer: {passed: true, score: 0.5}}
- {role: critic, answer: never}
"""
PROBLEMS = [{"id": f"p{number}", "problem": f"{number} + 1", "ground_truth": str(number + 1)} for number in range(40)]


@pytest.fixture
def debate(tmp_path, monkeypatch):
    """A solver, a verifier and a judge for which no model is configured, and no key is set."""
    monkeypatch.chdir(tmp_path)
    return write_workflow(tmp_path, DEBATE, "debate.yaml")


def ask_model(item):
    return gm.complete("openai/gpt-5-mini", item).text


def write_rules(folder, text=RULES, name="rules.yaml"):
    (folder / name).write_text(text)
    return name


class TestAnswers:
    """What answers."""

    def test_without_rules_schemas_and_prompts_do(self, debate):
        (result,) = gm.batch(debate, PROBLEMS[:1], rehearse=True).results()
        assert result.output == {"answer": "Solve: 0 + 1", "rounds": 1, "judge": {"passed": True, "score": 0}}

    def test_rules_play_agents_of_a_stated_skill_alike_each_time(self, debate, tmp_path):
        rules = write_rules(tmp_path)
        report = gm.batch(debate, PROBLEMS, rehearse=rules, concurrency=7)
        outputs = [result.output for result in report.results()]
        right = [
            output["answer"] == f"It is \\boxed{{{each['ground_truth']}}}."
            for output, each in zip(outputs, PROBLEMS, strict=True)
        ]
        assert 10 < [output["rounds"] for output in outputs].count(1) < 30
        assert 30 < sum(right) < 40
        assert outputs == [result.output for result in gm.batch(debate, PROBLEMS, rehearse=rules).results()]
        assert [output["judge"]["score"] for output in outputs[9:12]] == [0, 0.5, 0.5]

    def test_placeholders_in_data_keep_their_type(self, debate, tmp_path):
        rules = write_rules(
            tmp_path,
            """rules:
            - {role: judge, answer: {passed: false, score: "${attempt}"}}
            - {role: verifier, round: 1, answer: {passed: false, score: "${round}"}}""",
        )
        (result,) = gm.batch(debate, [{"id": "a", "problem": "x"}], rehearse=rules).results()
        assert (result.output["rounds"], result.output["judge"]) == (2, {"passed": False, "score": 1})

    def test_a_function_is_asked_with_item_input_node_role_and_round(self, debate):
        asked = []

        def agent(request):
            origin = request.origin
            asked.append((origin.item, origin.input["problem"], origin.node, origin.role, origin.round))
            if request.schema:
                return {"passed": origin.round == 2, "score": request.chance("score")}
            return "a"

        (result,) = gm.batch(debate, [{"id": "a", "problem": "x"}], rehearse=agent, samples=1).results()
        assert asked == [
            ("a", "x", "solve", "solver", 1),
            ("a", "x", "verify", "verifier", 1),
            ("a", "x", "solve", "solver", 2),
            ("a", "x", "verify", "verifier", 2),
            ("a", "x", "judge", "judge", 1),
        ]
        assert 0 <= result.output["judge"]["score"] < 1

    def test_gm_complete_is_rehearsed_too_in_nested_runs_as_well(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

        def inner(item):
            return gm.complete("openai/gpt-5-mini", f"Again: {item}").text

        async def outer(item):
            (nested,) = (await gm.abatch(inner, [item])).collect()
            return [nested, (await gm.complete(role="judge", prompt="Judge it")).text]

        assert gm.run(outer, "x", rehearse=True).output == ["Again: x", "Judge it"]

    def test_a_module_is_found_beside_the_settings(self, debate, tmp_path):
        (tmp_path / "graphmill.yaml").write_text("{}")
        (tmp_path / "agents_beside.py").write_text(
            "def agent(request):\n    return {'passed': True, 'score': 1} if request.schema else 'yes'\n"
        )
        below = tmp_path / "below"
        below.mkdir()
        out = answered(below, "run", debate, "problem=x", "--rehearse", "agents_beside:agent", "--json")
        assert json.loads(out)["output"]["answer"] == "yes"


class TestRuns:
    """A rehearsal is a run like any other, under its own name."""

    def test_it_says_so_everywhere_and_is_resumed_as_one(self, debate, tmp_path):
        write_items(tmp_path, PROBLEMS[:3])
        write_rules(tmp_path, RULES + "- {item: p2, role: judge, attempt: 1, fault: too_long}\n")
        given = ("--source", "items.jsonl", "--rehearse")
        code, out, err = run(tmp_path, "batch", debate, *given, "rules.yaml", "--run-id", "r", "--output", "out.jsonl")
        assert (code, "2/3 items succeeded, 1 failed (rehearsal)" in out) == (3, True), out + err
        assert "run r · rehearsal" in err
        assert "rehearsal/judge" in out
        assert "rules.yaml:10:3: this rule never matched" in err
        assert len(rows(tmp_path / "out.jsonl")) == 3
        assert "(rehearsal)" in answered(tmp_path, "status", "r")
        write_rules(tmp_path)
        assert "3/3 items succeeded (rehearsal)" in answered(tmp_path, "retry", "r")
        assert "nothing to do" in answered(tmp_path, "resume", "r")

    def test_it_is_not_mixed_with_real_results(self, debate, tmp_path):
        (tmp_path / "graphmill.yaml").write_text(
            "models: {default: scripted/echo}\nroles: {solver: default, verifier: default, judge: default}"
        )
        write_items(tmp_path, PROBLEMS[:1])
        batch = ("batch", debate, "--source", "items.jsonl", "--run-id")
        answered(tmp_path, *batch, "real")
        answered(tmp_path, *batch, "played", "--rehearse")
        code, _, err = run(tmp_path, *batch, "played")
        assert (code, "is a rehearsal" in err) == (2, True)
        code, _, err = run(tmp_path, *batch, "real", "--rehearse")
        assert (code, "is not a rehearsal" in err) == (2, True)

    def test_the_option_takes_no_input_for_its_file(self, debate, tmp_path):
        out = answered(tmp_path, "run", debate, "--rehearse", "problem=x", "--json")
        assert json.loads(out)["rehearsal"] is True

    def test_of_a_report_it_is_a_property(self, debate, tmp_path):
        report = gm.batch(debate, PROBLEMS[:1], rehearse=write_rules(tmp_path, "rules: [{role: nobody, answer: x}]"))
        assert report.is_rehearsal
        assert report.notes == (f"{tmp_path / 'rules.yaml'}:1:9: this rule never matched",)

    def test_one_by_a_function_is_resumed_by_its_program(self, debate):
        def agent(request):
            return {"passed": True, "score": 1} if request.schema else "yes"

        gm.batch(debate, PROBLEMS[:1], rehearse=agent, run_id="r")
        with pytest.raises(gm.UsageError, match="rehearse=function"):
            gm.resume("r", items=PROBLEMS[:2])
        report = gm.batch(debate, PROBLEMS[:2], rehearse=agent, run_id="r")
        assert report.summary() == "2/2 items succeeded (rehearsal)"

    def test_it_costs_nothing_whatever_the_model_costs(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "graphmill.yaml").write_text("prices: {openai/gpt-5-mini: {input: 1000, output: 1000}}")
        usage = gm.batch(ask_model, ["x"], rehearse=True).statistics.usage["rehearsal/openai/gpt-5-mini"]
        assert (usage.requests, usage.unpriced, usage.cost_nano) == (1, 0, 0)

    def test_the_shipped_pipeline_runs_without_a_model(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_items(tmp_path, PROBLEMS[:2])
        out = answered(tmp_path, "batch", "solve-verify-judge", "--source", "items.jsonl", "--rehearse", "--json")
        assert json.loads(out)["summary"] == "2/2 items succeeded (rehearsal)"

    def test_a_run_that_calls_no_model_of_ours_says_so(self):
        assert "nothing was rehearsed" in gm.batch(len, ["a"], rehearse=True).notes[0]


class TestMistakes:
    """What is wrong is said before the first item, with its place."""

    def test_all_mistakes_are_listed_with_line_and_column(self, debate, tmp_path):
        write_rules(
            tmp_path,
            "rules:\n- {rol: solver, answer: x}\n- {round: one}\n- {answer: {a: '${itme}'}}\n- {fault: thorttled}\n",
        )
        code, _, err = run(tmp_path, "run", debate, "problem=x", "--rehearse", "rules.yaml")
        assert code == 2
        for part in (
            "rules.yaml:2:4: ",
            "'role'",
            "rules.yaml:3:11: ",
            "rules.yaml:4:",
            "'item'",
            "rules.yaml:5:11: ",
            "'throttled'",
        ):
            assert part in err

    @pytest.mark.parametrize(
        ("script", "words"),
        [
            ("nothing.yaml", "nothing.yaml"),
            ("no_such_module:agent", "no_such_module"),
            ("debate.yaml", "is a workflow"),
        ],
    )
    def test_what_is_no_script_is_refused(self, debate, script, words):
        with pytest.raises(gm.UsageError, match=words):
            gm.run(debate, {"problem": "x"}, rehearse=script)
