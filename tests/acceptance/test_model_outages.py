"""A provider that can not be used any more, from the command line: no item fails, the run says why it waits, and it is gone on with."""

import json
import re
from collections import Counter

import pytest

import graphmill as gm
from support.command import COMMAND, IMPATIENT, PROMPT_BATCH, rows, run, write_items
from support.model_apis import APIS
from support.model_server import ModelServer, reply

CONCURRENCY = 10


class Place:
    """A project whose model is a server of ours; it breaks with this error after so many answers, until it is well again."""

    def __init__(self, folder, server, protocol, error, after):
        self.folder = folder
        self.server = server
        self.api = APIS[protocol]
        self.error = self.api.errors[error]
        self.left = after
        self.answered = Counter()
        self.refused = 0
        server.answer = self.answer
        (folder / "graphmill.yaml").write_text(
            f"providers: {{own: {{protocol: {protocol}, address: '{server.url}/v1'}}}}"
        )

    def answer(self, asked):
        if self.left == 0:
            self.refused += 1
            return reply(self.error[1], self.error[0])
        self.left -= 1
        self.answered[text_of(asked.data)] += 1
        return reply(self.api.answer)

    def command(self, *arguments, argv=COMMAND):
        code, out, err = run(self.folder, *arguments, argv=argv)
        return code, out + err

    def record(self, *arguments):
        code, said = self.command(*arguments, "--json")
        assert code == 0, said
        return json.loads(said)


def text_of(data):
    """Find the prompt in what a provider was sent."""
    if "contents" in data:
        return data["contents"][-1]["parts"][0]["text"]
    content = data["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


@pytest.fixture
def place(tmp_path):
    with ModelServer() as server:
        yield lambda *given, **more: Place(tmp_path, server, *given, **more)


def requests(made):
    return sum(row["usage"]["requests"] for row in made)


CASES = [("openai", "no_credit", 1000)]
CASES += [(protocol, error, 60) for protocol in APIS for error in ("no_credit", "key_refused", "model_missing")]


@pytest.mark.parametrize(("protocol", "error", "items"), CASES)
def test_a_run_without_credit_key_or_model_waits_with_no_failed_row_and_is_gone_on_with(
    place, tmp_path, protocol, error, items
):
    here = place(protocol, error, after=items // 2)
    write_items(tmp_path, [{"id": f"q{number}", "text": f"question {number}"} for number in range(items)])
    asking = [*PROMPT_BATCH, "-o", "out.jsonl", "--run-id", "night"]
    code, said = here.command(*asking, "--concurrency", str(CONCURRENCY), argv=IMPATIENT)
    reason = here.error[1]["error"]["message"].split(":")[0].split(".")[0]
    assert code == 5, said
    assert (reason in said, "graphmill resume night" in said, "graphmill resume night --model OTHER" in said) == (
        True,
        True,
        True,
    ), said
    assert (f"outage: own/m returned {here.error[0]}: " in said, "own/m: own/m" in said) == (True, False), said
    refused = here.refused
    assert 1 <= refused <= CONCURRENCY + 2

    made = rows(tmp_path / "out.partial.jsonl")
    assert Counter(row["status"] for row in made) == {"succeeded": items // 2}
    (listed,) = here.record("runs")["runs"]
    stands = here.record("status", "night")
    for told in (listed, stands):
        assert (told["state"], reason in told["reason"]) == ("paused", True)
        assert (told["counts"]["succeeded"], told["counts"]["failed"], told["counts"]["left"]) == (
            items // 2,
            0,
            items // 2,
        )
    assert reason in here.command("status", "night")[1]

    here.left = -1  # well again
    code, said = here.command("resume", "night", "-o", "out.jsonl")
    assert code == 0, said
    made = rows(tmp_path / "out.jsonl")
    assert [row["id"] for row in made] == [f"q{number}" for number in range(items)]
    assert {row["status"] for row in made} == {"succeeded"}
    assert here.answered == {f"question {number}": 1 for number in range(items)}
    assert here.refused == refused
    assert requests(made) == len(here.server.asked) == items + refused


def test_a_run_whose_server_was_never_there_is_offered_another_model(tmp_path):
    with ModelServer() as server:
        here = Place(tmp_path, server, "openai", "no_credit", 0)
    write_items(tmp_path, [{"id": "1", "text": "a"}])
    code, said = here.command(*PROMPT_BATCH, "--run-id", "r")
    assert code == 5, said
    assert "check the address, and that a server runs there (no call has succeeded yet)" in said
    assert "graphmill resume r --model OTHER" in said
    assert re.search(r"^  models +own/m$", here.command("show", "r", "--manifest")[1], re.MULTILINE)


@pytest.mark.parametrize("protocol", APIS)
def test_an_over_long_prompt_beside_good_ones_fails_alone(place, tmp_path, protocol):
    here = place(protocol, "too_long", after=-1)
    fine, (status, error) = here.answer, here.error
    here.server.answer = lambda asked: reply(error, status) if len(asked.body) > 5000 else fine(asked)
    write_items(
        tmp_path,
        [{"id": f"q{number}", "text": f"question {number}" * (2000 if number == 17 else 1)} for number in range(40)],
    )
    code, said = here.command(*PROMPT_BATCH, "-o", "out.jsonl")
    assert code == 3, said
    made = rows(tmp_path / "out.jsonl")
    assert [row["id"] for row in made if row["status"] != "succeeded"] == ["q17"]
    assert (made[17]["status"], made[17]["error"]["kind"], made[17]["attempts"]) == ("failed", "permanent", 1)
    assert len(here.server.asked) == 40


@pytest.mark.parametrize(("node", "chosen"), [("model: own/m", "other/n"), ("role: writer", "writer=other/n")])
def test_a_run_whose_provider_is_out_of_credit_goes_on_with_another_model(tmp_path, node, chosen):
    workflow = f"inputs: {{text: {{}}}}\nnodes: [{{id: ask, type: llm, params: {{{node}, prompt: '${{text}}', temperature: 0}}}}]"
    with ModelServer() as own, ModelServer(answer=lambda _: reply(APIS["openai"].answer)) as other:
        place = Place(tmp_path, own, "openai", "no_credit", 8)
        (tmp_path / "w.yaml").write_text(workflow)
        providers = {
            name: {"protocol": "openai", "address": f"{server.url}/v1"}
            for name, server in (("own", own), ("other", other))
        }
        (tmp_path / "graphmill.yaml").write_text(
            json.dumps({"providers": providers, "roles": {"writer": {"model": "own/m"}}})
        )
        source = write_items(tmp_path, [{"id": str(number), "text": f"text {number}"} for number in range(20)])
        options = ("--source", source, "--run-id", "r", "--concurrency", "1", "--output", "out.jsonl")
        code, said = place.command("batch", "w.yaml", *options, argv=IMPATIENT)
        assert code == 5, said
        refused = place.command("resume", "r", "--model", chosen, "--on-change", "refuse")
        assert refused[0] == 2
        assert "run r has 8 results from before a change: node 'ask' asks other/n, not own/m." in refused[1]
        code, said = place.command("resume", "r", "--model", chosen)
        assert (code, len(other.asked)) == (0, 12)
        assert "run r · node 'ask' asks other/n, not own/m · 8 results kept" in said
        assert "20/20 items succeeded" in said
        assert place.command("export", "r", "export.jsonl")[0] == 0
        for file in ("out.jsonl", "export.jsonl"):
            assert [row["metadata"]["model"] for row in rows(tmp_path / file)] == ["own/m"] * 8 + ["other/n"] * 12
        page = place.record("show", "r")
        assert page["manifest"]["kept"] == ["node 'ask' asks other/n, not own/m"]
        assert {name: each["requests"] for name, each in page["usage"]["models"].items()} == {
            "own/m": len(own.asked),
            "other/n": 12,
        }
        write_items(tmp_path, [{"id": str(number), "text": f"text {number}"} for number in range(21)])
        assert place.command("resume", "r")[0] == 0  # from now on that is the run's model
        assert (len(own.asked), len(other.asked)) == (8 + place.refused, 13)
        code, said = place.command("resume", "r", "--model", chosen, "--on-change", "invalidate")
        assert code == 0, said
        assert len(other.asked) == 13 + 8


def test_another_model_hides_no_other_change_and_is_not_for_functions_or_roles_that_are_not_there(tmp_path):
    with ModelServer(answer=lambda _: reply(APIS["openai"].answer)) as server:
        place = Place(tmp_path, server, "openai", "no_credit", -1)
        ask = "inputs: {text: {}}\nnodes: [{id: ask, type: llm, params: {model: own/m, prompt: '%s ${text}'}}]"
        (tmp_path / "w.yaml").write_text(ask % "say")
        source = write_items(tmp_path, [{"id": "1", "text": "a"}])
        assert place.command("batch", "w.yaml", "--source", source, "--run-id", "r")[0] == 0
        code, said = place.command("resume", "r", "--model", "writer=own/n")
        assert (code, "has no node of the role 'writer'" in said) == (2, True)
        (tmp_path / "w.yaml").write_text(ask % "tell")
        code, said = place.command("resume", "r", "--model", "own/n")
        assert (code, "1 results from before a change" in said) == (2, True), said
        (tmp_path / "w.yaml").write_text(ask % "say")
        write_items(tmp_path, [{"id": "1", "text": "another"}])
        code, said = place.command("resume", "r", "--model", "own/n")
        assert (code, "--on-change" in said) == (2, True), said


@pytest.mark.parametrize("source", ["items.jsonl", "items.json"])
def test_another_model_is_the_runs_only_once_an_item_is_done_with_it(tmp_path, source):
    def write(*numbers):
        items = [{"id": str(number), "text": f"text {number}"} for number in numbers]
        (tmp_path / source).write_text(
            json.dumps(items) if source == "items.json" else "\n".join(map(json.dumps, items))
        )

    with ModelServer() as server:
        place = Place(tmp_path, server, "openai", "too_long", -1)
        write(1, 2)
        assert place.command("batch", "--prompt", "${text}", "-m", "own/m", "-s", source, "--run-id", "r")[0] == 0
        before = place.record("show", "r")["manifest"]
        code, said = place.command("resume", "r", "--model", "own/n")
        assert (code, "every item already has a result" in said) == (0, True), said
        assert place.record("show", "r")["manifest"] == before

        write(1, 3)
        code, said = place.command("resume", "r", "--model", "own/n")
        assert (code, "node 'answer' asks own/n, not own/m · 2 results kept" in said) == (0, True), said
        after = place.record("show", "r")["manifest"]
        assert (after["graph"]["models"], after["kept"]) == (["own/n"], ["node 'answer' asks own/n, not own/m"])
        write(1, 3, 4)
        assert place.command("resume", "r")[0] == 0
        assert [asked.data["model"] for asked in server.asked] == ["m", "m", "n", "n"]


@pytest.mark.parametrize("is_command", [True, False])
def test_failed_items_are_done_again_with_another_model_which_is_the_runs_from_then_on(
    tmp_path, monkeypatch, is_command
):
    monkeypatch.chdir(tmp_path)
    with ModelServer() as server:
        place = Place(tmp_path, server, "openai", "too_long", 3)
        write_items(tmp_path, [{"id": str(number), "text": f"text {number}"} for number in range(5)])
        asking = (*PROMPT_BATCH, "--run-id", "r", "-c", "1", "-o", "out.jsonl")
        assert place.command(*asking)[0] == 3
        place.left = -1
        if is_command:
            refused = place.command("retry", "r", "--model", "own/n", "--on-change", "refuse")
            assert (refused[0], "node 'answer' asks own/n, not own/m" in refused[1]) == (2, True), refused
            code, said = place.command("retry", "r", "--model", "own/n")
            assert (code, "node 'answer' asks own/n, not own/m" in said) == (0, True), said
        else:
            gm.retry("r", models="own/n")
            assert place.command("export", "r", "out.jsonl")[0] == 0
        assert [row["metadata"]["model"] for row in rows(tmp_path / "out.jsonl")] == ["own/m"] * 3 + ["own/n"] * 2
        assert [
            f"queued · own/{name} · " in place.command("show", "r", item)[1] for item, name in (("0", "m"), ("4", "n"))
        ] == [True] * 2
        write_items(tmp_path, [{"id": str(number), "text": f"text {number}"} for number in range(6)])
        assert place.command("resume", "r")[0] == 0
        assert [asked.data["model"] for asked in server.asked[-3:]] == ["n"] * 3


def test_answers_that_were_cut_or_took_too_long_are_asked_for_again_with_more_tokens_and_time(tmp_path):
    def answer(asked):
        cut = {"choices": [{"message": {"role": "assistant", "content": "a"}, "finish_reason": "length"}]}
        is_cut = (asked.data.get("max_tokens") or asked.data["max_completion_tokens"]) < 500
        return reply(APIS["openai"].answer | (cut if is_cut else {}))

    with ModelServer() as server:
        place = Place(tmp_path, server, "openai", "too_long", -1)
        server.answer = answer
        write_items(tmp_path, [{"id": "1", "text": "a"}])
        asking = (*PROMPT_BATCH, "--run-id", "r", "-o", "out.jsonl")
        assert place.command(*asking, "--max-tokens", "5")[0] == 3
        code, said = place.command("retry", "r", "--timeout", "0")
        assert (code, "error: --timeout" in said) == (2, True), said
        code, said = place.command(
            "retry", "r", "--resample", "--max-tokens", "500", "--temperature", "0.5", "--timeout", "7"
        )
        assert code == 0, said
        (row,) = rows(tmp_path / "out.jsonl")
        assert row["status"] == "succeeded"
        manifest = place.record("show", "r")["manifest"]
        assert manifest["graph"]["choices"] == {"model": "own/m", "max_tokens": 500, "temperature": 0.5}
        assert manifest["policy"]["timeout_s"] == 7  # so that a resume after a crash gives as much time


def test_a_retry_after_an_edit_of_the_workflow_notes_which_model_it_asks_from_then_on(tmp_path):
    with ModelServer() as server:
        place = Place(tmp_path, server, "openai", "too_long", 1)
        write_items(tmp_path, [{"id": "1"}, {"id": "2"}])
        workflow = tmp_path / "w.yaml"
        workflow.write_text("nodes: [{id: ask, type: llm, params: {model: own/m, prompt: x}}]")
        assert place.command("batch", "w.yaml", "-s", "items.jsonl", "--run-id", "r", "-c", "1", argv=IMPATIENT)[0] == 3
    workflow.write_text("nodes: [{id: ask, type: llm, params: {model: own/n, prompt: x}}]")
    code, said = place.command("retry", "r", "--on-change", "keep", argv=IMPATIENT)
    assert (code, "graphmill resume r --model OTHER" in said) == (5, True), said
    assert place.record("show", "r")["manifest"]["graph"]["models"] == ["own/n"]


def test_a_retry_with_another_model_that_finds_nothing_to_retry_changes_nothing(tmp_path):
    with ModelServer() as server:
        place = Place(tmp_path, server, "openai", "too_long", -1)
        write_items(tmp_path, [{"id": "1", "text": "a"}])
        assert place.command(*PROMPT_BATCH, "--run-id", "r")[0] == 0
        before = place.record("show", "r")["manifest"]
        code, said = place.command("retry", "r", "--model", "own/n")
        assert (code, "run r has no failed items to retry" in said) == (2, True), said
        assert place.record("show", "r")["manifest"] == before
        with pytest.raises(gm.UsageError, match="a model must be NAME or ROLE=NAME, got None"):
            gm.retry("r", models=[None], journal=tmp_path / ".graphmill" / "runs.db")
        for again in (gm.retry, gm.resume):
            with pytest.raises(gm.UsageError, match="temperature: must be a number or null"):
                again("r", temperature=[1], journal=tmp_path / ".graphmill" / "runs.db")


@pytest.mark.parametrize("command", ["retry", "resume"])
def test_a_run_of_a_function_that_names_its_models_itself_is_told_so_whether_or_not_it_can_be_found_again(
    tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)

    def work(_):
        raise gm.Permanent("no")

    gm.batch(work, [{"id": "1"}], run_id="r")
    with ModelServer() as server:
        code, said = Place(tmp_path, server, "openai", "too_long", -1).command(command, "r", "--model", "own/n")
    assert (code, "picks its own models: change them there" in said, "gm.batch" in said) == (2, True, False), said


@pytest.mark.parametrize(
    ("first", "then", "words"), [("own/m", "own/n", "--model own/n"), ("answer=own/m", "own/n", "--model own/n")]
)
def test_a_batch_of_a_run_with_another_model_names_both_and_the_command_that_goes_on_with_it(
    tmp_path, first, then, words
):
    with ModelServer() as server:
        place = Place(tmp_path, server, "openai", "no_credit", -1)
        (tmp_path / "w.yaml").write_text(
            "inputs: {text: {}}\nnodes: [{id: ask, type: llm, params: {role: answer, prompt: '${text}'}}]"
        )
        write_items(tmp_path, [{"id": "1", "text": "a"}])
        asking = ("batch", "w.yaml", "-s", "items.jsonl", "--run-id", "r", "-m")
        assert place.command(*asking, first)[0] == 0
        code, said = place.command(*asking, then)
        assert (
            code,
            f"node 'ask' asks own/n, not own/m. Use graphmill resume r {words}, or with --on-change " in said,
        ) == (2, True)
        code, said = place.command(*asking, then, "--max-tokens", "50")
        assert (code, f" Use graphmill resume r {words} --max-tokens 50, or with --on-change " in said) == (
            2,
            True,
        ), said
        code, said = place.command(*asking, then, "--seed", "5")
        assert (code, "graphmill resume" in said) == (2, False), said  # which takes no seed


def test_a_refused_retry_with_another_model_names_the_other_change_of_the_same_node(tmp_path):
    with ModelServer() as server:
        place = Place(tmp_path, server, "openai", "too_long", 1)
        ask = "inputs: {text: {}}\nnodes: [{id: ask, type: llm, params: {model: own/m, prompt: '%s ${text}'}}]"
        (tmp_path / "w.yaml").write_text(ask % "say")
        source = write_items(tmp_path, [{"id": str(number), "text": "a"} for number in range(2)])
        assert place.command("batch", "w.yaml", "-s", source, "--run-id", "r", "-c", "1")[0] == 3
        (tmp_path / "w.yaml").write_text(ask % "tell")
        for command in ("retry", "resume"):
            code, said = place.command(command, "r", "--model", "own/n")
            assert (
                code,
                "change: node 'ask' changed, and asks own/n, not own/m. Use --on-change" in said,
            ) == (2, True), said
        code, said = place.command("batch", "w.yaml", "-s", source, "--run-id", "r", "-m", "own/n")
        assert (code, "graphmill resume" in said) == (2, False), said  # which would be refused


def test_results_do_not_replace_the_items_of_a_run_that_is_gone_on_with(tmp_path):
    with ModelServer() as server:
        place = Place(tmp_path, server, "openai", "too_long", 0)
        source = write_items(tmp_path, [{"id": "1", "text": "a"}])
        items = (tmp_path / source).read_bytes()
        assert place.command("batch", "--prompt", "${text}", "-m", "own/m", "-s", source, "--run-id", "r")[0] == 3
        for command in (("retry", "r", "-o", source), ("resume", "r", "-o", source), ("export", "r", source)):
            code, said = place.command(*command)
            assert (code, "would overwrite the items" in said) == (2, True), said
        (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
        code, said = place.command("export", "r", "loop.jsonl")
        assert (code, "Traceback" in said) == (74, False), said
        other = write_items(tmp_path, [{"id": "1", "text": "a"}], "other.jsonl")
        code, said = place.command("resume", "r", "-s", other, "-o", other)
        assert (code, "would overwrite the items" in said) == (2, True), said
        assert (
            place.command(
                "batch", "--prompt", "${text}", "-m", "own/m", "-s", source, "--run-id", "s", "-o", "later.jsonl"
            )[0]
            == 3
        )
        (tmp_path / "later.jsonl").write_bytes(items)
        code, said = place.command("resume", "s", "-s", "later.jsonl")  # where its results go, as it was begun
        assert (code, "would overwrite the items" in said) == (2, True), said
        assert (tmp_path / "later.jsonl").read_bytes() == items
        assert (tmp_path / source).read_bytes() == (tmp_path / other).read_bytes() == items


def test_results_do_not_replace_the_workflow_that_makes_them(tmp_path):
    workflow = '{"inputs": {"text": {}}, "nodes": [{"id": "v", "type": "value", "params": {"value": "${text}"}}]}'
    (tmp_path / "w.json").write_text(workflow)
    source = write_items(tmp_path, [{"id": "1", "text": "a"}])
    batch = ("batch", "w.json", "-s", source, "--run-id", "r")
    assert run(tmp_path, *batch)[0] == 0
    for command in ((*batch, "-o", "w.json"), ("resume", "r", "-o", "w.json"), ("export", "r", "w.json")):
        code, _, said = run(tmp_path, *command)
        assert (code, "would overwrite the workflow" in said) == (2, True), said
    assert (tmp_path / "w.json").read_text() == workflow
