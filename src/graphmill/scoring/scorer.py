"""What a scorer is, and how one is found by its name.

A scorer is a callable that returns a Score. Its parameters declare what it takes, by name:

    answer     what the item's output answers; None if nothing was found
    target     what is right, such as the item's ``ground_truth``
    problem    the item as it was run: a mapping, or the value of an item that is none
    trace      the recorded steps of the item, as data
    complete   gm.complete, to ask a model: within its limits, retried and recorded

    def same_length(answer, target):
        return len(answer) == len(target)              # True, False or a number from 0 to 1 is a Score too

An async scorer runs on the event loop, a plain one in a thread. What it raises is never a wrong answer: the item of the
scoring run fails, is retried by the run's policy, and again by ``graphmill retry``. An answer that it cannot decide
within its own limits is ``Score(value=None)``.

A scorer with options is a class; ``judge?rubric=strict.md`` calls it with ``rubric="strict.md"``, converted to the type
of that parameter. Attributes that it may have:

    version       changes when the same answer may get another score; it is recorded, and a change scores all again
    concurrency   how many items are scored at a time; default: the cores for a plain scorer, else the policy's
    packages      other packages whose versions are recorded
    open          ``async def open(self)``, called before the first item; raises what makes scoring impossible
    close         ``async def close(self)``, see below

Worker processes belong to the scorer. It starts them when it is first called, not when it is made: a scorer is made for
every command that only looks at one. A scoring pass calls ``close`` once when it ends, also after Ctrl-C, an error or a
pause, and then does not call the scorer again. A scorer that is used without a pass, as by gm.reward, is closed by
whoever made it.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from graphmill.core.errors import Permanent, UsageError, describe_error, message_of
from graphmill.core.fingerprint import function_fingerprint, value_fingerprint
from graphmill.core.json import canonical, digest
from graphmill.core.suggest import suggestion
from graphmill.graph.named import find_named
from graphmill.scoring.score import Score

GROUP = "graphmill.scorers"
TAKES = ("answer", "target", "problem", "trace", "complete")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_NEXT_OPTION = re.compile(r"&(?=\w+=)")  # nothing is decoded: a pattern may have any other & and every +


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """A scorer, ready to be called; ``find_scorer`` makes it.

    ``name`` is what its scores are called, ``spec`` the text by which it is found again, None for one that cannot be.
    """

    name: str
    call: Callable[..., Any]
    takes: frozenset[str]
    spec: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_async(self) -> bool:
        """Whether it runs on the event loop."""
        return _is_async(self.call)

    @property
    def version(self) -> str | None:
        """The version of its rules, if it names one."""
        found = getattr(self.call, "version", None)
        return None if found is None else str(found)

    @property
    def packages(self) -> tuple[str, ...]:
        """Other packages whose versions are recorded."""
        return tuple(getattr(self.call, "packages", ()))

    @property
    def concurrency(self) -> int | None:
        """How many items it scores at a time; None leaves it to the policy."""
        found: int | None = getattr(self.call, "concurrency", None)
        if found is None and not self.is_async:
            return os.cpu_count() or 1
        return found

    @property
    def fingerprint(self) -> str:
        """A hash of what decides a score: its version or, without one, its source; and its options."""
        made_by = self.version or function_fingerprint(self.call)
        return value_fingerprint([self.name, made_by, dict(self.options)])

    def score(self, item: Mapping[str, Any]) -> Score:
        """Score an item, with what it takes of it."""
        return _score_of(self.call(**self._given(item)), self.name)

    async def score_async(self, item: Mapping[str, Any]) -> Score:
        """Score an item with an async scorer."""
        return _score_of(await self.call(**self._given(item)), self.name)

    def _given(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {name: item[name] for name in self.takes}

    async def open(self) -> None:
        """Get it ready; raises what makes scoring impossible, such as a sandbox that is missing."""
        opener = getattr(self.call, "open", None)
        if opener is not None and inspect.isawaitable(opening := opener()):
            await opening

    async def try_out(self) -> None:
        """Read what it needs, such as the judge's rubric and model; open it and close it again."""
        _ = self.fingerprint
        try:
            await self.open()
        finally:
            await self.close()

    async def close(self) -> None:
        """Close what it holds."""
        close = getattr(self.call, "close", None)
        if close is not None and inspect.isawaitable(closing := close()):
            await closing


def find_scorer(given: str | Callable[..., Any] | Scorer) -> Scorer:
    """Return the scorer of a name, ``name?option=value``, ``module:function`` or a function; else UsageError."""
    if isinstance(given, Scorer):
        return given
    if not isinstance(given, str):
        return _scorer_of_function(given)
    name, question, query = given.partition("?")
    if not question:
        return make_scorer(name, given)
    parts = [part.partition("=") for part in _NEXT_OPTION.split(query)]
    if not all(option and equals for option, equals, _ in parts):
        raise UsageError(f"write the options of a scorer as {name}?option=value&other=value, got {given!r:.80}")
    return make_scorer(name, given, **{option: value for option, _, value in parts})


def find_scorers(given: Any) -> tuple[Scorer, ...]:
    """Return several scorers; UsageError if two have the same name."""
    refs = given if isinstance(given, Iterable) and not isinstance(given, str) and not callable(given) else [given]
    found = tuple(map(find_scorer, refs))
    names = [scorer.name for scorer in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two scorers are called {name!r}; leave one out, or rename the function")
    return found


def make_scorer(name: str, spec: str | None = None, /, **options: Any) -> Scorer:
    """Make a scorer by its name, with options for its class."""
    made = _named(name) if ":" in name else _installed(name)
    label = name.rpartition(":")[2].rpartition(".")[2]
    if isinstance(made, type):
        made = _instance(name, made, options)
    elif options:
        raise UsageError(f"scorer {name!r:.80} is a function and takes no options, got {', '.join(options)}")
    if options:
        label += f"-{digest(canonical({key: str(value) for key, value in options.items()})).hex()[:4]}"
    if spec is None and not options:
        spec = name
    return Scorer(name=_label(label), call=made, takes=_takes(made, name), spec=spec, options=options)


def scorer_names() -> list[str]:
    """List the scorers that are installed."""
    return sorted(_entries())


def _score_of(value: Any, name: str) -> Score:
    """Return what a scorer returned as a Score; anything else is its mistake, not a wrong answer."""
    if isinstance(value, Score):
        return value
    if isinstance(value, bool):
        return Score(value=float(value))
    try:
        if isinstance(value, int | float):
            return Score(value=float(value))
        if isinstance(value, Mapping):
            return Score(**value)
    except (UsageError, TypeError) as error:
        raise Permanent(f"scorer {name}: {message_of(error)}") from None
    raise Permanent(
        f"scorer {name} must return a Score, True, False or a number from 0 to 1, got {value!r:.80}; "
        "for an answer that it cannot decide, return gm.Score(value=None)"
    )


# -- finding


@cache
def _entries() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _installed(name: str) -> Any:
    entry = _entries().get(name)
    if entry is None:
        raise UsageError(
            f"no scorer {name!r:.80}{suggestion(name, _entries())}; there are {', '.join(scorer_names())}, "
            "and your own as module:function"
        )
    try:
        return entry.load()
    except (Exception, SystemExit) as error:  # third-party code
        raise UsageError(f"cannot load the scorer {name!r}: {describe_error(error)}") from error


def _named(name: str) -> Any:
    try:
        return find_named(name, what="scorer")
    except ValueError as error:
        raise UsageError(str(error)) from error


def _scorer_of_function(given: Any) -> Scorer:
    if not callable(given):
        raise UsageError(f"a scorer must be a name, module:function or a function, got {given!r:.80}")
    name = str(getattr(given, "name", None) or getattr(given, "__name__", None) or type(given).__name__)
    return Scorer(name=_label(name), call=given, takes=_takes(given, name), spec=_spec(given))


def _spec(function: Any) -> str | None:
    """Return the ``module:name`` under which another process finds this function; None if there is none."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module in (None, "__main__") or "<" in name or not name:
        return None
    return f"{module}:{name}"


def _label(name: str) -> str:
    """Make a name that can be part of a run's id and of a column."""
    label = _NOT_IN_NAMES.sub("-", name).strip("-_")[:40] or "scorer"
    return label if _NAME.fullmatch(label) else "scorer"


def _instance(name: str, kind: type, options: Mapping[str, Any]) -> Any:
    parameters = inspect.signature(kind, eval_str=True).parameters
    known = list(parameters)
    values: dict[str, Any] = {}
    for option, value in options.items():
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"scorer {name!r:.80} has no option {option!r:.80}{suggestion(option, known)}; {has}")
        try:
            annotation = parameters[option].annotation
            values[option] = msgspec.convert(
                value, Any if annotation is inspect.Parameter.empty else annotation, strict=False
            )
        except msgspec.ValidationError as error:
            raise UsageError(f"scorer {name}: {option}: {message_of(error)}, got {value!r:.80}") from None
    missing = [each.name for each in parameters.values() if each.default is each.empty and each.name not in values]
    if missing:
        raise UsageError(f"scorer {name!r:.80} needs {missing[0]}: write '{name}?{missing[0]}=…'")
    try:
        return kind(**values)
    except ImportError as error:
        raise UsageError(f"scorer {name}: {message_of(error)}") from error


def _takes(call: Any, name: str) -> frozenset[str]:
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"scorer {name!r:.80} must be a function or an object that is called, got {call!r:.80}"
        ) from error
    required = [each.name for each in parameters if each.default is each.empty]
    if unknown := [each for each in required if each not in TAKES]:
        raise UsageError(
            f"scorer {name!r:.80} has a parameter {unknown[0]!r}; a scorer may take {', '.join(TAKES)}, each by its "
            "name"
        )
    found = frozenset(each.name for each in parameters) & frozenset(TAKES)
    if not found - {"complete"}:
        raise UsageError(f"scorer {name!r:.80} takes none of {', '.join(TAKES[:-1])}, so it has nothing to score")
    return found


def _is_async(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
