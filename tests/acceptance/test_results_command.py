"""`graphmill results`, and how an item is named in every command, as a person uses them."""

import json

import msgspec
import pytest

from graphmill.core.usage import Usage
from graphmill.journal.records import OrphansRow, RunState
from graphmill.journal.store import open_store
from support.command import answered, run, write_items
from support.journal import failed, record, succeeded
from support.workflows import write_workflow


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / ".graphmill" / "runs.db")
    yield store
    store.close()


@pytest.fixture
def reviews(store):
    """A run of thirty items: every tenth fails, the others are good or bad."""
    record(store, "k7f2", [_review(number) for number in range(30)])
    return store


def _review(number):
    if number % 10 == 9:
        return failed(f"review-{number}", number, "the model refused")
    label = "good" if number % 2 else "bad"
    return succeeded(f"review-{number}", number, {"label": label, "score": number / 30, "more": {"n": number}})


def test_results_are_a_table_with_row_numbers_a_page_at_a_time(tmp_path, reviews):
    lines = answered(tmp_path, "results", "k7f2", "--limit", 2, "--offset", 8).splitlines()
    assert lines[0].split() == ["#", "id", "status", "score", "input", "output"]
    assert lines[1].split()[:4] == ["9", "review-8", "succeeded", "0.27"]
    assert "label: bad" in lines[1]
    assert lines[2].split()[:4] == ["10", "review-9", "failed", "–"]
    assert lines[2].endswith("the model refused")
    assert "--offset 10" in lines[3]
    assert answered(tmp_path, "results", "k7f2", "--offset", 30) == "no results after the first 30\n"


def test_requests_without_a_price_make_no_column_of_costs(tmp_path, store):
    row = msgspec.structs.replace(succeeded("a", 0), spent={"own/small": Usage(requests=1, unpriced=1)})
    record(store, "own", [row])
    assert answered(tmp_path, "results", "own").splitlines()[0].split() == ["#", "id", "status", "input", "output"]


def test_results_are_selected_by_status_and_by_fields_of_output_input_and_row(tmp_path, reviews):
    def rows(*arguments):
        return [row["row"] for row in json.loads(answered(tmp_path, "results", "k7f2", "--json", *arguments))["items"]]

    assert rows("--status", "failed") == [10, 20, 30]
    assert rows("--filter", "label=good", "--limit", 2, "--offset", 1) == [4, 6]
    assert rows("--filter", "label=good", "--filter", "more.n=3") == [4]
    assert (
        rows("--filter", "output.more.n=4") == rows("--filter", "input.n=4") == rows("--filter", "id=review-4") == [5]
    )
    assert rows("--filter", "error.kind=permanent", "--status", "failed") == [10, 20, 30]
    assert rows("--filter", "label=nothing") == []


def test_a_filter_by_a_field_that_no_result_has_is_refused_with_the_fields_there_are(tmp_path, reviews):
    code, _, err = run(tmp_path, "results", "k7f2", "--filter", "lable=good")
    assert code == 2
    assert "'lable' (did you mean 'label'?)" in err


def test_columns_are_chosen_by_name(tmp_path, reviews):
    lines = answered(tmp_path, "results", "k7f2", "--columns", "row,label,input.n,nothing", "--limit", 1).splitlines()
    assert [line.split() for line in lines[:2]] == [["#", "label", "input.n", "nothing"], ["1", "bad", "0", "–"]]
    found = json.loads(answered(tmp_path, "results", "k7f2", "--columns", "id,label", "--limit", 1, "--json"))
    assert found == {"run": "k7f2", "offset": 0, "items": [{"id": "review-0", "label": "bad"}], "next_offset": 1}
    assert run(tmp_path, "results", "k7f2", "--columns", "id,,label")[0] == 2


def test_a_run_without_results_says_so(tmp_path, store):
    record(store, "none", state=RunState.PAUSED)
    assert answered(tmp_path, "results", "none") == "no results yet\n"
    assert json.loads(answered(tmp_path, "results", "none", "--json"))["items"] == []


# -- how an item is named


def test_an_item_is_named_by_its_id_its_row_or_the_beginning_of_its_id(tmp_path, reviews):
    for name in ("review-9", "10"):
        assert "item review-9 of run k7f2" in answered(tmp_path, "show", "k7f2", name)
    record(reviews, "short", [succeeded("HumanEval/117", 0), succeeded("Math/1", 1)])
    assert "item HumanEval/117 " in answered(tmp_path, "show", "short", "Hum")


def test_a_beginning_that_several_ids_have_lists_them_with_their_rows(tmp_path, reviews):
    code, _, err = run(tmp_path, "show", "k7f2", "review-2")
    assert code == 0, err  # it is an id
    code, _, err = run(tmp_path, "show", "k7f2", "review-")
    assert code == 2
    assert "may be any of" in err
    assert "'review-0' (row 1), 'review-1' (row 2)" in err
    assert "…" in err


def test_an_exact_id_wins_over_a_row_number_and_that_over_a_beginning(tmp_path, store):
    record(store, "own", [succeeded("2", 0), succeeded("31", 1), succeeded("1", 2)])
    shown = {name: answered(tmp_path, "show", "own", name).split()[1] for name in ("2", "1", "3", "31")}
    assert shown == {"2": "2", "1": "1", "3": "1", "31": "31"}
    record(store, "few", [succeeded("abc", 0), succeeded("77", 1)])
    assert answered(tmp_path, "show", "few", "7").split()[1] == "77"
    assert run(tmp_path, "show", "few", "0")[0] == 2
    assert run(tmp_path, "show", "few", "99999999999999999999")[0] == 2


def test_a_row_means_the_item_that_is_in_the_source_now(tmp_path, store):
    gone = succeeded("gone", 0)
    record(store, "moved", [gone, succeeded("here", 0), failed("also", 0)], more=[OrphansRow([gone.key])])
    code, _, err = run(tmp_path, "show", "moved", "1")
    assert code == 2
    assert "'here' (row 1)" in err
    assert "'gone'" not in err


@pytest.mark.parametrize("name", ["", "ÿ", "no such"])
def test_a_name_that_no_item_has_is_refused(tmp_path, reviews, name):
    code, _, err = run(tmp_path, "show", "k7f2", name)
    assert code == 2
    assert "no record of an item" in err


@pytest.fixture
def waiting(tmp_path):
    """A run of three items, each of which asks."""
    write_workflow(
        tmp_path,
        "nodes: [{id: approve, type: ask, params: {question: 'ok ${n}?'}}]\ninputs: {n: {}}\n",
        "w.yaml",
    )
    write_items(tmp_path, [{"id": f"item-{name}", "n": name} for name in "abc"])
    code, _, err = run(tmp_path, "batch", "w.yaml", "--source", "items.jsonl", "--run-id", "r")
    assert code == 5, err
    return tmp_path


def test_answers_and_retries_take_the_same_names(waiting):
    code, _, err = run(waiting, "resume", "r", "--answer", "item-=yes")
    assert (code, "may be any of" in err) == (2, True)
    code, _, err = run(waiting, "resume", "r", "--answer", "1=yes", "--answer", "item-a=no")
    assert (code, "has two answers" in err) == (2, True)
    code, out, err = run(waiting, "resume", "r", "--answer", "1=yes", "--answer", "item-c=no")
    assert (code, "2/3 items succeeded, 1 waiting" in out) == (5, True), err
    assert "item item-b of run r · row 2 · waiting" in answered(waiting, "show", "r", "2")
    code, out, err = run(waiting, "retry", "r", "--item", "2")
    assert (code, "2/3 items succeeded, 1 waiting" in out) == (5, True), err
    assert json.loads(answered(waiting, "show", "r", "2", "--json"))["results"][-1]["generation"] == 2
