from functools import partial

import pytest

from graphmill.core.callable_name import callable_name


class Judge:
    def grade(self, item):
        return item

    def __call__(self, item):
        return item


class Nameless(Judge):
    def __init__(self):
        self.__qualname__ = None


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (callable_name, "callable_name"),
        (Judge.grade, "Judge.grade"),
        (Judge().grade, "Judge.grade"),
        (Judge, "Judge"),
        (Judge(), "Judge"),
        (partial(partial(callable_name), 1), "callable_name"),
        (len, "len"),
        (lambda item: item, "<lambda>"),
        (Nameless(), "Nameless"),
    ],
)
def test_a_function_goes_by_its_qualified_name_a_partial_by_its_function_s_an_object_by_its_class_s(function, name):
    assert callable_name(function) == name
