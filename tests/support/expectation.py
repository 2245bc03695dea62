"""What a workflow should give where the language does not say it to the letter: any value there, or at least these keys."""


class Unsaid:
    """A value of which the language says only that there is one."""

    def __eq__(self, other):
        return isinstance(other, Unsaid)

    def __hash__(self):
        return 0

    def __repr__(self):
        return "…"


class Containing(str):
    """A text that stands somewhere in what is given."""

    __slots__ = ()


class AtLeast(dict):
    """A mapping that may hold more."""


def difference(expected, actual, place="outputs"):
    """Tell where ``actual`` is not as expected; empty if it is."""
    if isinstance(expected, Unsaid):
        return "" if actual is not None else f"{place}: nothing is there"
    if isinstance(expected, Containing):
        return "" if expected in str(actual) else f"{place}: {actual!r} does not say {str(expected)!r}"
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _difference_of_mappings(expected, actual, place)
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        found = (
            difference(one, other, f"{place}[{index}]")
            for index, (one, other) in enumerate(zip(expected, actual, strict=True))
        )
        return next(filter(None, found), "")
    is_same = type(expected) is type(actual) and expected == actual
    return "" if is_same else f"{place}: {expected!r} was expected, {actual!r} is there"


def _difference_of_mappings(expected, actual, place):
    if lacking := [key for key in expected if key not in actual]:
        return f"{place}: {', '.join(lacking)} is not there, but {', '.join(actual)}"
    # What a function printed may be told beside what it gave.
    more = (
        []
        if isinstance(expected, AtLeast)
        else [key for key in actual if key not in expected and key not in ("stdout", "stderr")]
    )
    if more:
        return f"{place}: {', '.join(more)} should not be there"
    return next(filter(None, (difference(expected[key], actual[key], f"{place}.{key}") for key in expected)), "")
