"""What a batch would do is shown before it does anything: prompts, counts and cost as a range; nothing is sent or written."""

import json

import pytest

from support.command import run, write_items
from support.model_server import ModelServer, said

WORKFLOW = """
inputs: {n: {}, kind: {default: short}}
nodes:
  - {id: words, type: value, params: {ask: "In ${kind} words"}}
  - id: solve
    type: llm
    params: {model: own/m, system: "${words.ask}", prompt: "Solve ${n}", max_tokens: 100}
    loop: {max: 3, until: {done: "${round.logprobs}"}}
  - {id: judge, type: llm, params: {role: judge, prompt: "Judge ${solve.best.response}"}}
"""


@pytest.fixture
def server(tmp_path):
    with ModelServer() as found:
        found.answer = lambda _: said("yes")
        (tmp_path / "graphmill.yaml").write_text(
            f"providers: {{own: {{protocol: openai, address: '{found.url}/v1'}}}}\n"
            "roles: {judge: own/other}\nprices: {own/m: {input: 1000, output: 1000}}\n"
        )
        (tmp_path / "w.yaml").write_text(WORKFLOW)
        write_items(tmp_path, [{"id": f"q{n}", "n": n} for n in range(5)])
        yield found


def test_it_shows_items_models_limits_first_prompts_and_a_range_of_cost_and_sends_nothing(server, tmp_path):
    code, out, err = run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--dry-run", "--samples", "2")
    assert (code, server.asked) == (0, []), err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graphmill.yaml", "items.jsonl", "w.yaml"]
    for part in ("nothing is sent", "5 items", "own/m", "own/other", "10 at once", "calls    20 to 40", "item q2"):
        assert part in out
    assert "Solve 0" in out
    assert "In short words" in out
    assert "template shown: it depends on earlier outputs" in out
    assert "Judge ${solve.best.response}" in out
    assert "no price is known for own/other" in out
    assert "q3" not in out
    found = json.loads(run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--dry-run", "--json")[1])
    assert (found["jobs"], found["calls"], found["unpriced"]) == (5, [10, 20], ["own/other"])
    low, high = found["cost_usd"]
    assert 0 < low < high
    first = found["items"][0]["calls"][0]
    assert first["messages"][1] == {"role": "user", "content": "Solve 0"}


CHOSEN = """
inputs: {n: {}, judge_model: {default: own/m}, most: {default: 30}}
nodes:
  - {id: draft, type: llm, params: {model: "${judge_model}", prompt: "Draft ${n}", max_tokens: "${most}"}}
  - {id: judge, type: llm, params: {model: "${judge_model}", prompt: "Judge ${draft.response}", max_tokens: "${most}"}}
  - {id: chosen, type: llm, params: {model: "${draft.response}", prompt: "Again ${n}"}}
"""


def test_a_model_named_by_an_input_is_known_also_beside_what_is_not(server, tmp_path):
    (tmp_path / "w.yaml").write_text(CHOSEN)
    code, out, err = run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--dry-run", "--limit", "1", "--json")
    assert code == 0, err
    draft, judge, chosen = json.loads(out)["items"][0]["calls"]
    assert (judge["model"], judge["is_open"], judge["output_tokens"]) == ("own/m", True, draft["output_tokens"])
    assert draft["output_tokens"] == [20, 30]
    assert (chosen["model"], chosen["cost_usd"]) == ("${draft.response}", None)
    assert chosen["messages"] == [{"role": "user", "content": "Again 0"}]


BRANCHED = """
inputs: {n: {}}
nodes:
  - {id: first, type: llm, params: {model: own/m, prompt: "${n}"}}
  - {id: route, type: branch, params: {on: "${first.response}", cases: {"no": wrong}, default: right}}
  - {id: sorry, type: llm, params: {model: own/m, prompt: "${n}"}}
  - {id: after, type: llm, params: {model: own/m, prompt: "${n}"}}
edges: [{from: first, to: route}, {from: route, to: sorry, action: wrong}, {from: sorry, to: after}]
"""


def test_what_a_branch_decides_may_not_run(server, tmp_path):
    (tmp_path / "w.yaml").write_text(BRANCHED)
    out = run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--dry-run", "--limit", "1", "--json")[1]
    assert {each["path"]: each["calls"] for each in json.loads(out)["items"][0]["calls"]} == {
        "first": [1, 1],
        "sorry": [0, 1],
        "after": [0, 1],
    }


def test_what_the_run_itself_would_refuse_is_refused_and_a_small_budget_is_said(server, tmp_path):
    dry = ("batch", "w.yaml", "-s", "items.jsonl", "--dry-run", "--budget")
    code, _, err = run(tmp_path, *dry, "1")
    assert (code, "prices: {own/other" in err) == (2, True)
    (tmp_path / "w.yaml").write_text(WORKFLOW.partition("  - {id: judge")[0])
    assert "would pause at its budget" in run(tmp_path, *dry, "0.01")[1]
    assert "may pause at its budget" in run(tmp_path, *dry, "0.2")[1]
    assert "pause" not in run(tmp_path, *dry, "200")[1]
    assert "there are no items" in run(tmp_path, *dry, "1", "--limit", "0")[1]


def test_the_run_costs_no_more_than_the_estimate_says_at_most(server, tmp_path):
    (tmp_path / "w.yaml").write_text(WORKFLOW.partition("  - {id: judge")[0])
    _, high = json.loads(run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--dry-run", "--json")[1])["cost_usd"]
    ran = json.loads(run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--json")[1])
    assert ran["usage"]["cost_usd"] <= high
