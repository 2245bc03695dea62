"""The workflow language: the items of a batch, which may be many, endless, or written out with templates."""

import asyncio
from itertools import count

import pytest

import graphmill as gm
from support.flows import succeeded

STOPPED = """
    inputs: {{items: {{required: true}}}}
    nodes:
      - {{id: each, type: python, params: {{function: "acts:work", inputs: {{n: "${{item}}"}}}}, batch: {{items: "${{items}}", {rule}}}}}
      - {{id: told, type: value, params: {{outcomes: "${{each.outcomes}}",
          counts: ["${{each.count}}", "${{each.success_count}}", "${{each.error_count}}", "${{each.cancelled_count}}"]}}}}
    edges: [{{from: each, to: told, action: error}}]
"""

WHOLE = """
    inputs: {items: {required: true}}
    nodes: [{id: each, type: python, params: {function: "acts:work", inputs: {n: "${item}"}}, batch: {items: "${items}"}}]
"""


class Endless:
    """A source handle without an end, that notes how many it has given."""

    def __init__(self):
        self.given = 0

    def __iter__(self):
        for number in count():
            self.given += 1
            yield number


class Short(list):
    """An array that ends before the length it claims."""

    def __len__(self):
        return 9


def statuses(output):
    return [outcome["status"] for outcome in output["outcomes"]]


@pytest.fixture
def work(flow):
    """``acts:work`` fails for good for 3 and for what is above it."""

    @flow.act
    async def work(n):
        if n >= 3:
            raise gm.Permanent(f"{n} fails")
        return n


@pytest.mark.parametrize(
    ("rule", "ended"),
    [
        ("parallel: false", ["succeeded"] * 3 + ["failed"]),
        ("error_handling: continue, max_failures: 1", ["succeeded"] * 3 + ["failed"] * 2),
        ("error_handling: continue, max_failures: 0.5", ["succeeded"] * 3 + ["failed"] * 17),
    ],
)
def test_a_source_handle_is_not_read_further_once_its_batch_is_stopped(flow, work, rule, ended):
    source = Endless()
    output = succeeded(flow.timed(STOPPED.format(rule=rule), {"items": source}))
    assert (statuses(output), source.given) == (ended, len(ended))
    assert output["counts"] == [len(ended), 3, len(ended) - 3, 0]


def test_what_of_a_source_handle_was_under_way_is_cancelled_and_what_was_not_read_is_not_counted(flow):
    @flow.act
    async def work(n):
        if n == 2:
            raise gm.Permanent("2 fails")
        await asyncio.Event().wait()

    source = Endless()
    output = succeeded(flow.timed(STOPPED.format(rule="parallel: true, max_concurrent: 5"), {"items": source}))
    assert (statuses(output), output["counts"]) == (["cancelled"] * 2 + ["failed"] + ["cancelled"] * 2, [5, 0, 1, 4])
    assert source.given == 5


def test_of_an_array_every_item_that_did_not_start_is_cancelled(flow, work):
    output = succeeded(flow.timed(STOPPED.format(rule="parallel: false"), {"items": list(range(7))}))
    assert (statuses(output), output["counts"]) == (["succeeded"] * 3 + ["failed"] + ["cancelled"] * 3, [7, 3, 1, 3])


def test_items_that_end_before_the_length_they_claim_are_as_many_as_there_were(flow, work):
    output = flow.output(WHOLE, {"items": Short([0, 1])})
    assert (statuses(output), output["count"]) == (["succeeded"] * 2, 2)


def test_a_file_may_be_the_items(flow, work, tmp_path):
    (tmp_path / "rows.jsonl").write_text("0\n1\n2\n", encoding="utf-8")
    output = flow.output(WHOLE, {"items": gm.source(tmp_path / "rows.jsonl")})
    assert [each["result"] for each in output["results"]] == [0, 1, 2]


# Items that are written out.

WRITTEN = """
    inputs: {rows: {default: [{n: 0}, {}, {n: 2}]}}
    nodes:
      - {id: each, type: value, params: {n: "${item}"}, batch: {items: ["${rows[0].n}", "${rows[1].n}", "${rows[2].n}"], %s}}
"""


def test_an_entry_that_is_missing_is_the_failure_of_its_item_in_its_place(flow):
    output = flow.output(WRITTEN % "error_handling: continue, max_retries: 5")
    assert statuses(output) == ["succeeded", "failed", "succeeded"]
    assert [(each["n"], each["item"], each["original_index"]) for each in output["results"]] == [(0, 0, 0), (2, 2, 2)]
    (error,) = output["errors"]
    assert (error["index"], error["item"], error["kind"], error["attempts"]) == (1, None, "permanent", 1)
    assert "${rows[1].n} is missing" in error["error"]


def test_an_entry_that_is_missing_fails_the_node_under_fail_fast(flow):
    failure = flow.failure(WRITTEN % "parallel: true")
    assert (failure.kind, "item 1 failed: ${rows[1].n} is missing" in failure.message) == ("permanent", True)


def test_an_entry_is_resolved_when_its_item_starts(flow):
    class Watched(dict):
        def __getitem__(self, key):
            read.append(key)
            return super().__getitem__(key)

    read, seen = [], []

    @flow.act
    async def look(n):
        seen.append((n, list(read)))

    flow.timed(
        """
        inputs: {row: {required: true}}
        nodes:
          - {id: each, type: python, params: {function: "acts:look", inputs: {n: "${item}"}}, batch: {items: ["${row.a}", "${row.b}", 5]}}
        """,
        {"row": Watched(a=1, b=2)},
    )
    assert seen == [(1, ["a"]), (2, ["a", "b"]), (5, ["a", "b"])]
