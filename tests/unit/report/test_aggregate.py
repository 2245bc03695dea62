import asyncio
from dataclasses import dataclass
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmill as gm

outputs = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3), max_size=5)
quick = settings(deadline=None, max_examples=40)


def report_of(*outputs, ids="abcdefgh"):
    items = [{"id": name, "output": output} for name, output in zip(ids, outputs, strict=False)]
    return gm.batch(lambda item: item["output"], items)


def finished_backwards(first, second):
    """Two jobs, the second of which is finished first."""
    ready = asyncio.Event()

    async def graph(item):
        if item["id"] == "first":
            await ready.wait()
        ready.set()
        return item["output"]

    return gm.batch(graph, [{"id": "first", "output": first}, {"id": "second", "output": second}])


def conflicts(mappings):
    return any(
        key in later and later[key] != value
        for n, one in enumerate(mappings)
        for key, value in one.items()
        for later in mappings[n:]
    )


@given(outputs)
@quick
def test_last_is_what_updating_one_after_the_other_gives(mappings):
    assert report_of(*mappings).merge(conflict="last") == reduce(lambda one, other: one | other, mappings, {})


@given(outputs)
@quick
def test_first_is_what_updating_in_reverse_gives(mappings):
    assert report_of(*mappings).merge(conflict="first") == reduce(lambda one, other: other | one, mappings, {})


@given(outputs)
@quick
def test_error_refuses_exactly_where_first_and_last_differ(mappings):
    report = report_of(*mappings)
    if conflicts(mappings):
        with pytest.raises(gm.UsageError, match="give different values for"):
            report.merge()
    else:
        assert report.merge() == report.merge(conflict="first") == report.merge(conflict="last")


@given(outputs)
@quick
def test_a_function_decides_over_what_is_merged_so_far_and_the_next(mappings):
    merged = report_of(*mappings).merge(conflict=max)
    assert merged == {key: max(one[key] for one in mappings if key in one) for one in mappings for key in one}


def test_merging_does_not_change_the_outputs():
    report = report_of({"a": [1]}, {"b": [2]})
    merged = report.merge()
    merged["c"] = 3
    assert report.collect() == [{"a": [1]}, {"b": [2]}]


def test_a_conflict_names_both_jobs_the_entry_and_the_remedy():
    report = report_of({"x": 1}, {"y": 1}, {"x": 2}, ids=["one", "two", "three"])
    with pytest.raises(
        gm.UsageError,
        match=r"'one' and 'three' give different values for 'x'; .*conflict='first', 'last', or a function",
    ):
        report.merge()


def test_first_and_last_go_by_input_order_whatever_was_finished_first():
    report = finished_backwards({"x": 1}, {"x": 2})
    assert report.merge(conflict="first") == {"x": 1}
    assert report.merge(conflict="last") == {"x": 2}
    assert report.merge(conflict=lambda one, other: (one, other)) == {"x": (1, 2)}


def test_equal_values_are_no_conflict_but_one_and_true_are():
    assert report_of({"x": [1]}, {"x": [1]}).merge() == {"x": [1]}
    for one, other in ((1, True), (1, 1.0), (0, False), ("1", 1)):
        with pytest.raises(gm.UsageError, match="different values"):
            report_of({"x": one}, {"x": other}).merge()


def test_the_same_object_is_no_conflict_even_if_it_is_not_equal_to_itself():
    nan = float("nan")
    assert gm.batch(lambda item: {"x": nan}, [1, 2]).merge()["x"] is nan


def test_by_a_key_whole_outputs_are_merged():
    report = report_of({"user": "u1", "n": 1}, {"user": "u2", "n": 2}, {"user": "u1", "n": 1})
    assert report.merge(key="user") == {"u1": {"user": "u1", "n": 1}, "u2": {"user": "u2", "n": 2}}


def test_by_a_key_two_different_outputs_are_a_conflict():
    report = report_of({"user": "u1", "n": 1}, {"user": "u1", "n": 2})
    with pytest.raises(gm.UsageError, match="'a' and 'b' give different values for 'u1'"):
        report.merge(key="user")
    assert report.merge(key="user", conflict="last") == {"u1": {"user": "u1", "n": 2}}


def test_only_chosen_results_are_merged_and_failures_never():
    def graph(item):
        if item == 1:
            raise gm.Permanent("no")
        return {item: item}

    report = gm.batch(graph, [0, 1, 2, 3])
    assert report.merge() == {0: 0, 2: 2, 3: 3}
    assert report.merge(where=lambda result: result.position > 2) == {3: 3}


@dataclass
class Answer:
    text: str


@pytest.mark.parametrize(
    ("output", "name"), [("text", "str"), (None, "NoneType"), ([1], "list"), (Answer("a"), "Answer")]
)
def test_an_output_that_is_no_mapping_is_refused_with_its_job_and_type(output, name):
    with pytest.raises(gm.UsageError, match=f"outputs that are mappings; that of 'b' is {name}"):
        report_of({"a": 1}, output).merge()


def test_an_output_without_the_key_is_refused_with_what_it_has():
    with pytest.raises(gm.UsageError, match="the output of 'b' has no 'user' to merge by; it has 'usr', 'n'"):
        report_of({"user": 1}, {"usr": 2, "n": 3}).merge(key="user")


def test_a_key_that_can_not_be_looked_up_is_refused_with_its_type():
    with pytest.raises(gm.UsageError, match="the 'user' of 'a' is a list, which can not be merged by"):
        report_of({"user": ["u1"]}).merge(key="user")


@pytest.mark.parametrize("conflict", ["newest", None, 1])
def test_an_unknown_rule_is_refused_even_where_nothing_conflicts(conflict):
    with pytest.raises(gm.UsageError, match="conflict is error, first, last or a function of two values, not"):
        gm.batch(lambda item: item, []).merge(conflict=conflict)
