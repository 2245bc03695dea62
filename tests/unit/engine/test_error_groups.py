from graphmill.core.result import Failure, Kind
from graphmill.engine.error_groups import ErrorGroups


def groups(*failures):
    found = ErrorGroups()
    for kind, message in failures:
        found.add(Failure(kind=kind, message=message, type="X"))
    return [(group.kind, group.message, group.count) for group in found.largest_first()]


def test_messages_that_differ_only_in_numbers_are_one_group_with_the_first_one_s():
    assert groups(
        (Kind.TIMEOUT, "after 61 s"),
        (Kind.CRASH, "gone"),
        (Kind.CRASH, "gone"),
        (Kind.TIMEOUT, "after 7 s"),
        (Kind.TIMEOUT, "after 8 s"),
    ) == [
        ("timeout", "after 61 s", 3),
        ("crash", "gone", 2),
    ]


def test_the_same_message_of_another_kind_is_another_group():
    assert len(groups((Kind.TIMEOUT, "x"), (Kind.CRASH, "x"))) == 2


def test_beyond_a_hundred_groups_the_rest_of_a_kind_is_one():
    letters = [a + b for a in "abcdefghijkl" for b in "abcdefghijkl"]
    found = groups(*((Kind.PERMANENT, text) for text in letters))
    assert found[0] == ("permanent", "(other messages)", 44)
    assert len(found) == 101
    assert sum(count for _, _, count in found) == 144
