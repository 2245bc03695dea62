"""What calls cost, from the settings to the reports: by prices of one's own, since a server on this machine has no others."""

import json
import re

import pytest

import graphmill as gm
from support.command import run, write_items
from support.model_server import ModelServer, reply, said

PRICES = "prices: {own/m: {input: 1000, output: 5000}}"  # an answer of five tokens in and two out costs 1.5 cents
WORKFLOW = """
inputs: {n: {}}
nodes:
  - id: ask
    type: llm
    params: {model: own/m, prompt: "${n}", output_schema: {type: object, required: [x]}}
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    write_items(tmp_path, [{"n": 1}, {"n": 2}])
    with ModelServer() as found:
        found.answer = lambda _: said('{"x": 1}')
        yield found


def settings(folder, server, more=PRICES):
    text = f"providers: {{own: {{protocol: openai, address: '{server.url}/v1'}}}}\n{more}\n"
    (folder / "graphmill.yaml").write_text(text)


def batch(folder, *more):
    code, out, err = run(folder, "batch", "w.yaml", "-s", "items.jsonl", "--json", *more)
    assert code in (0, 3), err
    return json.loads(out)["usage"], err


def test_every_answer_is_priced_also_one_that_is_asked_for_again(server, tmp_path):
    settings(tmp_path, server)
    answers = iter(["no", '{"x": 1}', '{"x": 2}'])
    server.answer = lambda _: said(next(answers))
    usage, err = batch(tmp_path, "--run-id", "r", "--concurrency", "1")
    assert (usage["requests"], usage["cost_usd"], usage["unpriced"]) == (3, 0.045, 0)
    assert "no price" not in err
    assert "$0.045" in run(tmp_path, "status", "r")[1]
    assert "$0.045" in run(tmp_path, "runs")[1]
    costs = [json.loads(line)["cost_usd"] for line in run(tmp_path, "export", "r", "-")[1].splitlines()]
    assert sorted(costs) == [0.015, 0.03]


ROLES = """
nodes:
  - {id: draft, type: llm, params: {role: writer, prompt: "${n}"}, loop: {max: 2, until: {never: "${round.logprobs}"}}}
  - {id: many, type: llm, params: {role: judge, prompt: "${n}"}, batch: {times: 3, as: k}}
"""


def test_cost_is_reported_by_role_and_node_too_after_a_resume_as_well(server, tmp_path):
    settings(tmp_path, server, f"{PRICES}\nroles: {{writer: own/m, judge: own/m}}")
    (tmp_path / "w.yaml").write_text(f"inputs: {{n: {{}}}}{ROLES}")
    answers = [said("yes")] * 7 + [reply({"error": {"message": "no"}}, 400)] + [said("yes")] * 5
    server.answer = lambda _: answers.pop(0)
    assert run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--run-id", "r", "-c", "1")[0] == 3
    assert run(tmp_path, "retry", "r")[0] == 0
    code, out, _ = run(tmp_path, "status", "r", "--json")
    usage = json.loads(out)["usage"]
    assert (code, usage["requests"], usage["cost_usd"]) == (0, 11, 0.15)
    assert {name: part["cost_usd"] for name, part in usage["roles"].items()} == {"judge": 0.09, "writer": 0.06}
    assert {name: part["cost_usd"] for name, part in usage["nodes"].items()} == {"draft": 0.06, "many": 0.09}
    read = gm.open_run("r", tmp_path / ".graphmill" / "runs.db").usage
    assert (read["own/m"].cost_nano, read.roles["judge"].cost_nano, read.nodes["draft"].cost_nano) == (15e7, 9e7, 6e7)
    text = run(tmp_path, "status", "r")[1]
    assert re.search(r"judge +own/m +7 requests .* \$0\.09\n +writer +own/m +4 requests .* \$0\.06\n", text)


def test_an_unknown_price_is_said_before_the_run_and_counted(server, tmp_path):
    settings(tmp_path, server, "")
    usage, err = batch(tmp_path, "--scorer", "exact")
    assert (usage["unpriced"], usage["cost_usd"]) == (2, None)
    assert err.count("note: no price is known for own/m") == 1
    assert "prices: {own/m: {input: …, output: …}}" in err


def test_a_resume_and_a_report_in_python_say_it_too(server, tmp_path):
    settings(tmp_path, server, "")
    batch(tmp_path, "--run-id", "r")
    write_items(tmp_path, [{"n": 1}, {"n": 2}, {"n": 3}])
    code, out, err = run(tmp_path, "resume", "r", "--json")
    assert (code, json.loads(out)["done_now"], err.count("note: no price is known for own/m")) == (0, 1, 1)
    [note] = gm.batch("w.yaml", [{"n": 4}], concurrency=1).notes
    assert "no price is known for own/m" in note
    settings(tmp_path, server)
    assert gm.batch("w.yaml", [{"n": 4}], concurrency=1).notes == ()


def test_an_answer_that_cannot_be_used_has_cost_too_and_one_that_was_refused_has_not(server, tmp_path):
    settings(tmp_path, server)
    answers = iter([said("cut", "length"), reply({"error": {"message": "no"}}, 400)])
    server.answer = lambda _: next(answers)
    usage, _ = batch(tmp_path)
    assert (usage["requests"], usage["cost_usd"], usage["unpriced"]) == (2, 0.015, 0)


def test_the_cost_that_a_provider_reports_is_taken_and_marked(server, tmp_path):
    settings(tmp_path, server)
    message = {"message": {"content": '{"x": 1}'}, "finish_reason": "stop"}
    used = {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.25}
    server.answer = lambda _: reply({"choices": [message], "usage": used})
    usage, _ = batch(tmp_path, "--run-id", "r")
    assert (usage["cost_usd"], usage["reported"]) == (0.5, 2)
    assert "$0.50 (the provider's own figure for 2 requests)" in run(tmp_path, "show", "r")[1]


def test_a_cached_answer_costs_nothing_and_says_what_it_saved(server, tmp_path):
    settings(tmp_path, server)
    assert batch(tmp_path, "--cache")[0]["cost_usd"] == 0.03
    usage, _ = batch(tmp_path, "--cache", "--run-id", "r")
    assert (usage["cost_usd"], usage["saved_usd"], usage["reused"]) == (0, 0.03, 2)
    assert "2 answers reused · 0 tokens in, 0 out · saved $0.03" in run(tmp_path, "status", "r")[1]
    assert "saved $0.015" in run(tmp_path, "show", "r", "1")[1]


def test_calls_in_functions_are_priced(server, tmp_path):
    settings(tmp_path, server)

    async def ask(n):
        return (await gm.complete("own/m", str(n))).text

    statistics = gm.batch(ask, [1, 2]).statistics
    assert statistics.usage["own/m"].cost_nano == 30_000_000


def test_what_functions_report_is_priced(server, tmp_path):
    settings(tmp_path, server, "prices: {acme/small: {input: 1, output: 2}}")

    def plain(n):  # in a thread
        gm.report_usage("acme/small", input_tokens=1_000_000, output_tokens=n)

    async def quick(n):
        gm.report_usage("acme/unknown", input_tokens=n)
        gm.report_usage("acme/unknown", cost_usd=0.5)
        gm.report_usage("openai/gpt-5-mini", input_tokens=1_000_000)
        gm.report_usage(
            "openai/gpt-4o", input_tokens=2_000_000, cached_tokens=1_000_000, output_tokens=9, reasoning_tokens=9
        )

    assert gm.batch(plain, [500_000]).statistics.usage["acme/small"].cost_nano == 2_000_000_000
    usage = gm.batch(quick, [1]).statistics.usage
    unknown = usage["acme/unknown"]
    assert (unknown.cost_nano, unknown.unpriced, unknown.reported) == (500_000_000, 1, 1)
    assert usage["openai/gpt-5-mini"].cost_nano == 250_000_000
    assert (usage["openai/gpt-4o"].cost_nano, usage["openai/gpt-4o"].reasoning_tokens) == (3_750_090_000, 9)
    gm.report_usage("acme/small")  # outside of a run
    with pytest.raises(gm.UsageError, match="input_tokens must be an integer"):
        gm.report_usage("acme/small", input_tokens=-1)


LOOP = """
inputs: {n: {}, most: {default: %s}}
nodes:
  - id: ask
    type: llm
    params: {model: own/m, prompt: "${n}"}
    loop: {max: 9, until: {never: "${round.logprobs}"}, budget_usd: "${most}"}
"""


def test_a_budget_of_a_loop_needs_prices(server, tmp_path):
    settings(tmp_path, server, "")
    (tmp_path / "w.yaml").write_text(LOOP % 0.04)
    for command in (["validate", "w.yaml"], ["batch", "w.yaml", "-s", "items.jsonl"]):
        code, out, err = run(tmp_path, *command)
        assert (code, "loop.budget_usd needs prices, and none is known for own/m" in out + err) == (2, True)
    assert not server.asked
    (tmp_path / "w.yaml").write_text(LOOP % "null")
    assert run(tmp_path, "validate", "w.yaml")[0] == 0
    settings(tmp_path, server)
    (tmp_path / "w.yaml").write_text(LOOP % 0.04)
    code, out, _ = run(tmp_path, "run", "w.yaml", "n=1")
    assert (code, "stop: budget" in out, len(server.asked)) == (0, True, 3)


EDITED = """
inputs: {n: {}}
nodes:
  - {id: solve, type: llm, params: {model: own/m, prompt: "${n}"}}
  - {id: judge, type: llm, params: {model: own/m, prompt: "JUDGE ${solve.response}"}}
  - {id: sum, type: llm, params: {model: own/m, prompt: "${judge.response}"}}
"""


def test_a_resume_after_an_edit_says_first_what_is_done_again_and_what_that_costs(server, tmp_path):
    settings(tmp_path, server)
    (tmp_path / "w.yaml").write_text(EDITED)
    assert run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--run-id", "r")[0] == 0
    assert "calls reused" not in run(tmp_path, "resume", "r")[2]
    (tmp_path / "w.yaml").write_text(EDITED.replace("JUDGE", "Judge"))
    said_first = "2 solve calls reused, 2 judge calls again, 2 sum calls again, about $0.06"
    code, _, err = run(tmp_path, "resume", "r")
    assert (code, f"with --on-change invalidate: {said_first}" in err) == (2, True), err
    server.answer = lambda _: said("another")
    before = len(server.asked)
    code, _, err = run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--run-id", "r", "--on-change", "invalidate")
    assert (code, f"the workflow was edited: {said_first}" in err) == (0, True), err
    assert len(server.asked) - before == 4
    (tmp_path / "w.yaml").write_text(EDITED)  # what is no longer current is not counted
    code, _, err = run(tmp_path, "resume", "r", "--on-change", "keep")
    assert (code, "calls again" in err) == (0, False), err
    code, _, err = run(tmp_path, "resume", "r", "--on-change", "invalidate")
    assert (code, f"the workflow was edited: {said_first}" in err) == (0, True), err


def test_results_from_before_an_edit_do_not_count_until_they_are_made_again(server, tmp_path):
    settings(tmp_path, server)
    write_items(tmp_path, [{"n": n} for n in range(6)])
    (tmp_path / "w.yaml").write_text(WORKFLOW.replace("own/m,", "own/m, max_tokens: 2,"))
    used = {"prompt_tokens": 500, "completion_tokens": 0}  # half a dollar
    server.answer = lambda _: reply(
        {"choices": [{"message": {"content": '{"x": 1}'}, "finish_reason": "stop"}], "usage": used}
    )
    batch = ("batch", "w.yaml", "-s", "items.jsonl", "--run-id", "r", "--concurrency", "1")
    assert run(tmp_path, *batch, "--budget", "100")[0] == 0
    (tmp_path / "w.yaml").write_text(WORKFLOW.replace("own/m,", "own/m, max_tokens: 3,"))
    code, out, _ = run(tmp_path, *batch, "--on-change", "invalidate", "--budget", "4.95")
    assert (code, "2/6 items succeeded, 4 outdated" in out, "continues with the 4 pending items" in out) == (
        4,
        True,
        True,
    )
    counts = json.loads(run(tmp_path, "status", "r", "--json")[1])["counts"]
    assert {name: counts[name] for name in ("done", "left", "outdated")} == {"done": 2, "left": 4, "outdated": 4}
    rows = [json.loads(line) for line in run(tmp_path, "export", "r", "-")[1].splitlines()]
    assert [row["metadata"].get("outdated", False) for row in rows] == [False] * 2 + [True] * 4
    code, out, _ = run(tmp_path, "resume", "r", "--budget", "100")
    assert (code, "6/6 items succeeded · 4 done now, 2 before" in out) == (0, True)
