import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.result import Kind
from graphmill.core.usage import Usage
from graphmill.journal.bodies import usage_body
from graphmill.journal.records import AttemptRow, StepRow
from graphmill.report.item.batches import BatchItemError, BatchView, batch_lines, batches_of
from graphmill.report.item.trace import body_text, trace_of, visible
from graphmill.report.item.trace_page import part_record, step_lines, trace_lines, trace_record


def body(value):
    return json.dumps(value, separators=(",", ":")).encode()


def row(path, output=1, *, error=None, began_s=0.0, generation=1, usage=None, attempts=1):
    failure = (
        None
        if error is None
        else body({"kind": "permanent", "message": error, "type": "X", "traceback": '  File "a"\n'})
    )
    used = usage_body(usage)
    return StepRow(b"k", generation, path, b"c", attempts, 1.0, None if error else body(output), failure, used, began_s)


def shape(branch):
    return {child.name: shape(child) for child in branch.children}


def test_paths_become_a_tree_of_nodes_items_and_rounds():
    trace = trace_of(
        [
            row(path)
            for path in (
                "fetch",
                "outer[1]/inner[0]@2/call",
                "outer[0]/x",
                "debate@1/solve",
                "debate@10/solve",
                "debate@2/a",
            )
        ]
    )
    assert shape(trace) == {
        "fetch": {},
        "outer": {"[0]": {"x": {}}, "[1]": {"inner": {"[0]": {"round 2": {"call": {}}}}}},
        "debate": {"round 1": {"solve": {}}, "round 2": {"a": {}}, "round 10": {"solve": {}}},
    }
    assert trace.find("outer[1]/inner[0]@2/call").path == "outer[1]/inner[0]@2/call"
    assert trace.find("outer[7]") is None


@given(st.lists(st.text("ab/[]@01#é ", min_size=1, max_size=12), max_size=20))
def test_any_path_has_a_place_and_can_be_drawn(paths):
    trace = trace_of([row(path) for path in paths])
    assert trace.step_count <= len(set(paths))
    trace_lines(trace)
    trace_record(trace)


def test_nodes_stand_in_the_order_in_which_they_began():
    assert list(shape(trace_of([row("b", began_s=2), row("c", began_s=1), row("a", began_s=3)]))) == ["c", "b", "a"]


def test_a_batch_counts_its_items_and_one_without_a_step_is_known_by_those_after_it():
    trace = trace_of(
        [row("b[0]"), row("b[1]", error="no"), row("b[3]/x", began_s=0), row("b[3]/y", error="late", began_s=5)]
    )
    (view,) = batches_of(trace)
    assert (view.count, view.succeeded, view.failed, view.rest) == (4, 1, 2, 1)
    assert view.summary() == "1 item succeeded so far, 2 failed, 1 without a finished step"
    assert [(error.index, error.message) for error in view.errors] == [(1, "permanent: no"), (3, "permanent: late")]


def summary(path, generation=1, *, succeeded=0, failed=0, cancelled=0, degraded=False):
    told = {
        "succeeded": succeeded,
        "failed": failed,
        "timed_out": 1,
        "cancelled": cancelled,
        "degraded": degraded,
        "errors": [],
    }
    return StepRow(b"k", generation, f"{path}#batch", b"c", 0, 0.0, None, body(told))


def test_what_a_batch_has_noted_at_its_end_counts_and_what_times_out_has_failed():
    (view,) = batches_of(trace_of([row("b[0]"), summary("b", succeeded=1, failed=2, cancelled=3)]))
    assert view.summary() == "1/7 items succeeded, 3 failed, 3 cancelled"


def test_while_a_batch_is_done_again_its_steps_tell_of_it():
    rows = [row("b[0]"), row("b[1]", error="no"), summary("b", succeeded=1, degraded=True), row("b[1]", generation=2)]
    assert batches_of(trace_of(rows))[0].summary() == "2 items succeeded so far"
    assert batches_of(trace_of([*rows, summary("b", 2, succeeded=5)]))[0].summary() == "5/6 items succeeded, 1 failed"


def test_an_item_whose_failed_step_was_followed_by_another_has_not_failed():
    trace = trace_of([row("b[0]/x", error="handled"), row("b[0]/y", began_s=2)])
    assert trace.find("b[0]").status == "succeeded"


def test_the_items_of_errors_come_from_outputs_that_hold_the_same_batch():
    held = {
        "results": [],
        "errors": [{"index": 0, "item": {"name": "x" * 99}, "error": "no", "kind": "permanent", "attempts": 3}],
        "outcomes": [],
        "count": 1,
    }
    (view,) = batches_of(trace_of([row("b[0]", error="no")]), {"all": held})
    assert batch_lines(view)[1].startswith('  [0]   {"name":"xxxxx')
    assert batch_lines(view)[1].endswith("…   permanent: no (3 attempts)")
    (alone,) = batches_of(trace_of([]), {"all": held})
    assert alone.name == "all"
    (whole,) = batches_of(trace_of([]), held)
    assert batch_lines(whole)[0] == "items: 0/1 items succeeded, 1 failed"


def test_five_errors_are_shown_and_the_others_counted():
    errors = [BatchItemError(index=number, message="no", attempts=1) for number in range(8)]
    lines = batch_lines(BatchView(name="b", count=10, succeeded=2, failed=8, errors=errors))
    assert lines == [
        "b: 2/10 items succeeded, 8 failed",
        *(f"  [{number}]   no (1 attempt)" for number in range(5)),
        "  ...and 3 more",
    ]


def test_ten_thousand_items_are_folded_to_the_first_and_the_failed():
    rows = [row(f"b[{number}]", error="no" if number % 1000 == 999 else None) for number in range(10_000)]
    lines = trace_lines(trace_of(rows))
    record = trace_record(trace_of(rows))
    assert len(lines) == 1 + 3 + 10 + 1
    assert "9,990 items succeeded so far, 10 failed" in lines[0]
    assert lines[-1].split("   ")[0].strip() == "… and 9,987 more"
    assert lines[-1].endswith("9,987 succeeded")
    assert record[0]["hidden"] == {"count": 9987, "succeeded": 9987, "failed": 0, "unfinished": 0}
    assert record[0]["items"]["count"] == 10_000


def test_nested_batches_stay_small():
    rows = [row(f"a[{one}]/b[{two}]/c[{three}]") for one in range(20) for two in range(20) for three in range(20)]
    assert len(trace_lines(trace_of(rows))) <= 1001


def test_usage_adds_up_and_a_step_that_calls_others_counts_them_already():
    one = Usage(requests=1, input_tokens=600, output_tokens=600, cost_nano=250_000_000)
    trace = trace_of([row("b[0]", usage=one), row("b[1]", usage=one), row("b[1]/inner", usage=one)])
    assert trace.usage == one + one
    assert trace_lines(trace)[0].endswith("2 items succeeded so far · 2,400 tokens · $0.50")


@pytest.mark.parametrize("usage", [Usage(reused=1), Usage()], ids=["now", "before answers were counted"])
def test_a_step_whose_answer_was_known_says_so(usage):
    assert [line.endswith("· cached") for line in trace_lines(trace_of([row("ask", usage=usage)]))] == [True]


def test_what_failed_attempts_used_counts_until_their_step_has_ended_and_says_so_itself():
    one = Usage(requests=1, cost_nano=250_000_000)
    attempts = [AttemptRow(b"k", 1, path, 1, Kind.TRANSIENT, None, usage_body(one)) for path in ("a", "b")]
    trace = trace_of([row("a", usage=one + one)], attempts)
    assert trace.usage == one + one + one
    assert [found["usage"]["requests"] for found in part_record(trace.find("b"))["attempts"]] == [1]


def test_the_last_generation_of_a_step_counts_and_an_older_one_says_so():
    trace = trace_of([row("a", "old"), row("a", "new", generation=2), row("b", "kept")])
    lines = trace_lines(trace, 2)
    assert lines[0].endswith('"new"')
    assert lines[1].endswith('"kept" · generation 1')


def test_failed_attempts_stand_under_their_step_also_before_it_has_ended():
    attempts = [
        AttemptRow(b"k", 1, "a", number, Kind.TRANSIENT, body({"kind": "transient", "message": "busy"}))
        for number in range(1, 6)
    ]
    lines = trace_lines(trace_of([], attempts))
    assert lines[0].split() == ["a", "unfinished"]
    assert lines[1].split() == ["attempt", "1", "transient:", "busy"]
    assert lines[-1].strip() == "… and 2 more failed attempts"


def test_a_step_in_full_has_its_output_or_its_trail():
    trace = trace_of([row("a", [{"x": "y" * 5000}, "retry", []]), row("b", error="broken")])
    lines = step_lines(trace.find("a"))
    assert "action: retry" in lines
    assert any("y" * 5000 in line for line in lines)
    assert step_lines(trace.find("b"))[1:] == ["error: permanent: broken", '    File "a"']
    assert part_record(trace.find("a"))["step"]["output"] == {"x": "y" * 5000}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([{"x": 1}, "default", []], '{"x":1}'),
        ([{"x": 1}, "retry", []], 'retry: {"x":1}'),
        ([{"x": "y" * 3000}, "default", []], '{"x":"yyyyyyyyyyyyy…'),
        ([1, 2, 3], "[1,2,3]"),
        (None, "null"),
    ],
)
def test_a_body_in_short_is_the_node_s_values(value, text):
    assert body_text(body(value), 20) == text


def test_control_characters_are_written_out():
    assert visible("a\x1b[31m\nb\u202e\x7f", 80) == "a\\x1b[31m\\nb\\u202e\\x7f"
    assert visible("abcdef", 4) == "abc…"
