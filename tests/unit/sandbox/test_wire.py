"""Values that cross between a program and its tests."""

import datetime
import math
import socket
import threading
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import pytest

from graphmill.sandbox.inside.remote import Peer
from graphmill.sandbox.inside.wire import ConnectionEndedError, pack, receive, send, unpack

Point = namedtuple("Point", "x y")


class Color(IntEnum):
    """An int with a name."""

    RED = 3


class Lying(str):
    """A text that equals everything."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class Program:
    """What a program defines, at the other end of a connection."""

    def __init__(self, **offered):
        ours, theirs = socket.socketpair()
        self.peer = Peer(ours, None)
        self._thread = threading.Thread(target=self._serve, args=(Peer(theirs, offered), theirs))
        self._thread.start()
        self._ours = ours

    def _serve(self, peer, connection):
        with connection, pytest.raises(ConnectionEndedError):
            peer.serve()

    def __getitem__(self, name):
        return self.peer.fetch(name, is_strict=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ours.close() if self._ours.fileno() < 0 else self._ours.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._ours.close()


DATA = [
    None,
    True,
    -(10**50),
    1.5,
    math.inf,
    "a\ud800\n",
    [1, [2, ()]],
    (1, (2,)),
    {1, 2},
    frozenset({("a",)}),
    {(1, 2): [3], None: {"a": 1}},
    OrderedDict(b=1, a=2),
    Counter("aab"),
    deque([1, 2]),
    b"\x00\xff",
    bytearray(b"x"),
    1 + 2j,
    range(1, 9, 2),
    slice(1, None),
    Decimal("1.10"),
    Fraction(1, 3),
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4, datetime.UTC),
    datetime.timedelta(days=-1, microseconds=5),
    ...,
]


@pytest.mark.parametrize("value", DATA, ids=repr)
def test_data_arrives_as_it_is_with_its_type(value):
    with Program(give=lambda: value, take=lambda given: (given == value, type(given) is type(value))) as program:
        found = program["give"]()
        assert (found, type(found)) == (value, type(value))
        assert program["take"](value) == (True, True)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Color.RED, 3),
        (Point(1, 2), (1, 2)),
        (Lying("x"), "x"),
        (defaultdict(int, a=1), {"a": 1}),
        ({"a": 1}.keys(), {"a"}),
    ],
)
def test_of_other_kinds_of_data_the_content_arrives(value, plain):
    with Program(give=lambda: value) as program:
        found = program["give"]()
        assert found == plain
        assert type(found) is not Lying


def test_a_changed_argument_is_changed_here():
    def change(items, names):
        items.sort()
        names["a"] = 2
        return items

    items, names = [3, 1, 2], {"a": 1}
    with Program(change=change) as program:
        assert program["change"](items, names) == [1, 2, 3]
    assert (items, names) == ([1, 2, 3], {"a": 2})


def test_objects_are_used_where_they_are():
    class Stack:
        def __init__(self):
            self.items = []

        def push(self, item):
            self.items.append(item)
            return self

        def __len__(self):
            return len(self.items)

        def __iter__(self):
            return iter(self.items)

    with Program(Stack=Stack, same=lambda stack: type(stack) is Stack) as program:
        stack = program["Stack"]().push(1).push([2])
        assert len(stack) == 2
        assert list(stack) == [1, [2]]
        assert stack.items == [1, [2]]
        assert program["same"](stack) is True
        assert isinstance(stack, program["Stack"])
        with pytest.raises(AttributeError):
            stack.pop()


def test_exceptions_arrive_as_their_kind_also_those_of_the_program():
    class OddError(ValueError):
        pass

    def fail(kind):
        raise OddError("odd") if kind == "odd" else KeyError(kind)

    with Program(OddError=OddError, fail=fail) as program:
        with pytest.raises(KeyError, match="x"):
            program["fail"]("x")
        with pytest.raises(ValueError, match="odd"):
            program["fail"]("odd")
        with pytest.raises(program["OddError"]):
            program["fail"]("odd")
        with pytest.raises(NameError, match="'missing'"):
            program["missing"]


def test_functions_are_called_back_and_nothing_is_reached_through_them():
    def look(function):
        found = []
        for name in ("__globals__", "__code__", "gi_frame", "__class__"):
            try:
                found.append(getattr(function, name))
            except AttributeError:
                continue
        return [function(20), *(str(each) for each in found if "Remote" not in str(each))]

    with Program(look=look) as program:
        assert program["look"](lambda x: x + 1)[0] == 21
        assert len(program["look"](lambda x: x + 1)) == 1


class Anything:
    """An object that says what is wanted."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __lt__(self, other):
        return True

    __gt__ = __le__ = __ge__ = __contains__ = __lt__

    def __sub__(self, other):
        return 0

    __rsub__ = __add__ = __abs__ = __sub__


@pytest.mark.parametrize(
    "test",
    [
        lambda found: found == 3,
        lambda found: found in (1, 2, 3),
        lambda found: 3 in found,
        lambda found: found < 3,
        lambda found: abs(found - 3) < 1e-9,
        lambda found: 3 - found == 0,
        lambda found: isinstance(found, int),
        lambda found: [found] == [3],
    ],
)
def test_an_object_in_place_of_data_passes_no_test(test):
    with Program(answer=Anything) as program:
        found = program["answer"]()
        try:
            assert not test(found)
        except TypeError:
            return


@pytest.mark.parametrize(
    "reply",
    [
        ["value"],
        ["value", {"kind": "no such"}, []],
        ["value", {"kind": "reference", "of": ["yours", 99]}, []],
        ["value", {"kind": "set", "of": [[]]}, []],
        ["value", 1, [[99, 1]]],
        ["error"],
        {"what": 1},
        7,
        None,
    ],
    ids=repr,
)
def test_a_reply_that_is_none_ends_the_connection(reply):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(theirs, reply)
        peer = Peer(ours, None)
        with pytest.raises(ConnectionEndedError):
            peer.ask("call", [1], {}, is_strict=True)
        assert peer.has_ended


def test_what_is_no_message_ends_the_connection():
    for data in (b"", b"\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x02{]"):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(data)
            theirs.close()
            with pytest.raises(ConnectionEndedError):
                receive(ours)


def test_a_value_that_contains_itself_is_refused():
    items = []
    items.append(items)
    with pytest.raises(RecursionError):
        unpack(pack(items, lambda _: None), lambda _: None)
