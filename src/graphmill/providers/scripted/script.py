"""A script: what a model that does not exist answers, how fast, its faults, and how many requests it takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, Final

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, Unavailable, WorkflowError
from graphmill.core.model_call import FinishReason, ModelRequest
from graphmill.core.positions import FileProblem
from graphmill.core.suggest import suggestion
from graphmill.core.usage import RateLimits, Usage
from graphmill.graph.language.document import Document
from graphmill.graph.language.grammar import ANYTHING, Block, Key, ValueKind, integer, number, one_of, shown
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.reader import BlockReader
from graphmill.graph.template import CompiledValue, Missing, TemplateError, compile_value, text_of

_P99 = NormalDist().inv_cdf(0.99)
ENDS = {
    "length": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
    "content_filter": FinishReason.CONTENT_FILTER,
    "other_end": FinishReason.OTHER,
}
SILENCE = "silence"
_ERRORS: dict[str, tuple[type[AttemptError], str]] = {
    "throttled": (Throttled, "returned 429: too many requests"),
    "overloaded": (Throttled, "returned 529: overloaded"),
    "server_error": (Transient, "returned 500: internal server error"),
    "truncated": (Transient, "response was cut off"),
    "bad_json": (Transient, "response is not valid JSON"),
    "empty": (Transient, "response has no choices"),
    "error_in_answer": (Transient, "returned 500: an error inside a successful response"),
    "reset": (Transient, "connection closed before the response arrived"),
    "web_page": (Unavailable, "got a web page instead of a response"),
    "down": (Unavailable, "cannot connect: Connection refused"),
    "no_credit": (Unavailable, "returned 402: no credit left; add credit"),
    "key_refused": (Unavailable, "returned 401: the key was refused; check the key"),
    "model_missing": (Unavailable, "returned 404: no such model; check the model's name and the address"),
    "too_long": (Permanent, "returned 400: the prompt is too long for the model"),
}
_UNSENT = frozenset({"down"})
FAULTS = (*ENDS, *_ERRORS, SILENCE)

# -- the keys of a file of rules


def _one_or_several(wanted: str, *kinds: type) -> ValueKind:
    def fits(value: Any) -> bool:
        values = value if isinstance(value, list) else [value]
        return bool(values) and all(type(each) in kinds for each in values)

    return ValueKind(f"{wanted}, or a list of them", {}, fits)


def _or_mapping(kind: ValueKind) -> ValueKind:
    return ValueKind(f"{kind.wanted}, or a mapping", {}, lambda value: isinstance(value, Mapping) or kind.fits(value))


_PATTERN = _one_or_several("text; * matches any text", str, int)
_NUMBER = _one_or_several("an integer", int)
_SECONDS = number("a number of seconds")
_SHARE = number(most=1)
_LATENCY_KIND = _or_mapping(_SECONDS)
PATTERNS: Final = ("item", "node", "role", "path", "model")
NUMBERS: Final = ("round", "sample", "attempt")
NAMES: Final = (*PATTERNS, *NUMBERS, "prompt", "input")

SCRIPT: Final[Block] = MappingProxyType(
    {
        "seed": Key(integer(-(2**63), 2**63 - 1), "Draws shares and latencies.", default=0),
        "latency": Key(_LATENCY_KIND, "How long answers take.", default=0.0),
        "throttle": Key(
            ValueKind("a mapping", {}, lambda value: isinstance(value, Mapping)), "How many requests it takes."
        ),
        "rules": Key(
            ValueKind("a list of rules", {}, lambda value: isinstance(value, list)), "The first match applies."
        ),
    }
)
RULE: Final[Block] = MappingProxyType(
    {
        **{name: Key(_PATTERN, "") for name in PATTERNS},
        "text": Key(_PATTERN, "Found anywhere in any message."),
        **{name: Key(_NUMBER, "") for name in NUMBERS},
        "share": Key(_SHARE, "Of the matching calls.", default=1.0),
        "answer": Key(ANYTHING, "Text, or data that is sent as JSON; may contain templates."),
        "fault": Key(one_of(FAULTS), "How the call fails."),
        "retry_after_s": Key(_SECONDS, "What a fault asks to wait."),
        "latency": Key(_LATENCY_KIND, "How long this answer takes."),
    }
)
LATENCY: Final[Block] = MappingProxyType(
    {
        "median_s": Key(_SECONDS, "Half of all answers take at most this.", is_required=True),
        "p99_s": Key(_SECONDS, "99 % of all answers take at most this."),
        "knee": Key(integer(1), "With more calls at once, answers take longer."),
    }
)
THROTTLE: Final[Block] = MappingProxyType(
    {
        "at_once": Key(integer(1), "Requests at once."),
        "per_minute": Key(integer(1), "Requests in a minute."),
        "share": Key(_SHARE, "Of requests that are refused in any case.", default=0.0),
        "retry_after_s": Key(_SECONDS, "What a refusal asks to wait."),
    }
)

# -- what they mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long answers take: half up to ``median_s``, 99 % up to ``p99_s``; longer with more than ``knee`` at once."""

    median_s: float
    p99_s: float | None = None
    knee: int | None = None

    def seconds(self, chance: float, at_once: int) -> float:
        """Return the time of one answer."""
        seconds = self.median_s
        if self.p99_s and self.median_s:
            spread = math.log(self.p99_s / self.median_s) / _P99
            seconds *= math.exp(spread * NormalDist().inv_cdf(min(max(chance, 1e-6), 1 - 1e-6)))
        if self.knee:
            seconds *= max(1.0, at_once / self.knee)
        return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """How many requests the server takes at once and per minute; a share is throttled in any case."""

    at_once: int | None = None
    per_minute: int | None = None
    share: float = 0.0
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The answer to requests that match everything it names, or a share of them; ``place`` is its line."""

    patterns: Mapping[str, tuple[CompiledValue, ...]] = field(default_factory=dict)
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    texts: tuple[CompiledValue, ...] = ()
    share: float = 1.0
    answer: CompiledValue | None = None
    fault: str | None = None
    retry_after_s: float | None = None
    latency: Latency | float | None = None
    place: str = ""

    def matches(self, request: ModelRequest, scope: Mapping[str, Any]) -> bool:
        """Whether it is for this request, apart from its share."""
        return (
            all(scope[name] in numbers for name, numbers in self.numbers.items())
            and all(_is_one_of(patterns, scope[name], scope) for name, patterns in self.patterns.items())
            and (not self.texts or any(_is_in(self.texts, message.text, scope) for message in request.messages))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The rules, where the first match applies, and how the server behaves; ``seed`` draws shares and latencies."""

    rules: tuple[Rule, ...] = ()
    latency: Latency | float = 0.0
    throttle: Throttle = Throttle()
    seed: int = 0


def scope_of(request: ModelRequest) -> dict[str, Any]:
    """Return the names that templates in a rule can look up."""
    origin = request.origin
    return {
        "item": origin.item,
        "node": origin.node,
        "role": origin.role,
        "path": origin.path,
        "model": request.model,
        "round": origin.round,
        "sample": origin.sample,
        "attempt": origin.attempt,
        "prompt": request.messages[-1].text,
        "input": origin.input,
    }


def _is_one_of(patterns: Iterable[CompiledValue], value: str, scope: Mapping[str, Any]) -> bool:
    return any(_fits(_filled(pattern, scope), value, is_whole=True) for pattern in patterns)


def _is_in(patterns: Iterable[CompiledValue], text: str, scope: Mapping[str, Any]) -> bool:
    return any(_fits(_filled(pattern, scope), text, is_whole=False) for pattern in patterns)


def _filled(pattern: CompiledValue, scope: Mapping[str, Any]) -> str | None:
    """Return a pattern without templates; None if they lead to nothing, which no text is."""
    try:
        return text_of(pattern.resolve(scope))
    except Missing:
        return None


def _fits(pattern: str | None, text: str, *, is_whole: bool) -> bool:
    """Whether a text, or a part of it, matches a pattern in which * is any text."""
    if pattern is None:
        return False
    first, *others = pattern.split("*")
    if not is_whole:
        first, others = "", [first, *others, ""]
    if not others:
        return text == first
    *middle, last = others
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def build_fault(name: str, retry_after_s: float | None = None) -> AttemptError:
    """Build the error of a fault, as the same fault of a real provider gives it."""
    kind, message = _ERRORS[name]
    text = f"scripted: {message}"
    if issubclass(kind, Throttled | Transient):
        error: AttemptError = kind(text, retry_after_s=retry_after_s)
    else:
        error = kind(text)
    if name not in _UNSENT:
        error.usage = Usage(requests=1)
    if retry_after_s is not None:
        error.limits = RateLimits(retry_after_s=retry_after_s)
    return error


# -- reading


def read_script(path: str) -> Script:
    """Read a script from a YAML or JSON file; Unavailable lists all its mistakes, with their lines."""
    try:
        document = Document.read(path, what="rehearsal")
        problems = Problems(document)
        script = _ScriptReader(problems).script(document.data)
        problems.raise_if_any()
    except (WorkflowError, ValueError) as error:
        raise Unavailable(str(error)) from None
    return script


class _ScriptReader:
    """Reads the blocks of a file of rules."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def script(self, data: Any) -> Script:
        if data is not None and not isinstance(data, Mapping):
            self._problems.add((), f"rules must be a mapping with {', '.join(SCRIPT)}, got {shown(data)}")
            return Script()
        if data and "nodes" in data:
            self._problems.add(
                ("nodes",), "this is a workflow, not a file of rules; name the workflow first", is_key=True
            )
            return Script()
        block = self._block(data or {}, (), SCRIPT)
        throttle = Throttle()
        if block.has("throttle"):
            found = self._block(block["throttle"], ("throttle",), THROTTLE)
            throttle = Throttle(**{key: found[key] for key in THROTTLE})
        rules = [self._rule(rule, ("rules", index)) for index, rule in enumerate(block["rules"] or ())]
        return Script(rules=tuple(rules), latency=self._latency(block) or 0.0, throttle=throttle, seed=block["seed"])

    def _rule(self, found: Any, at: At) -> Rule:
        if not isinstance(found, Mapping):
            self._problems.add(at, f"a rule must be a mapping with {', '.join(RULE)}, got {shown(found)}")
            return Rule()
        block = self._block(found, at, RULE)
        if block.is_given("answer") and block.has("fault") and block["fault"] not in ENDS:
            block.wrong(f"a call with the fault {block['fault']} has no answer; remove one", block.at_key("answer"))
        return Rule(
            patterns={name: self._patterns(block, name) for name in PATTERNS if block.has(name)},
            numbers={name: tuple(_listed(block[name])) for name in NUMBERS if block.has(name)},
            texts=self._patterns(block, "text"),
            share=block["share"],
            answer=self._value(block["answer"], block.at_key("answer")) if block.has("answer") else None,
            fault=block["fault"],
            retry_after_s=block["retry_after_s"],
            latency=self._latency(block),
            place=str(FileProblem(*self._problems.document.place(at), "")).removesuffix(": "),
        )

    def _patterns(self, block: BlockReader, name: str) -> tuple[CompiledValue, ...]:
        compiled = [self._value(str(each), block.at_key(name)) for each in _listed(block[name])]
        return tuple(each for each in compiled if each is not None)

    def _latency(self, block: BlockReader) -> Latency | float | None:
        found = block["latency"]
        if not isinstance(found, Mapping):
            return found  # type: ignore[no-any-return]
        inner = self._block(found, block.at_key("latency"), LATENCY)
        return Latency(**{key: inner[key] for key in LATENCY}) if inner.has("median_s") else None

    def _value(self, raw: Any, at: At) -> CompiledValue | None:
        """Compile a value with templates, and check the names that they look up."""
        try:
            value = compile_value(raw)
        except TemplateError as error:
            self._problems.add(at, str(error))
            return None
        for reference in value.references:
            name = reference.segments[0].name
            if name not in NAMES:
                near = suggestion(name, NAMES)
                self._problems.add(at, f"${{{reference}}}: no {name!r}{near}; available: {', '.join(NAMES)}")
        return value

    def _block(self, found: Mapping[Any, Any], at: At, block: Block) -> BlockReader:
        return BlockReader(found, at, block=block, problems=self._problems)


def _listed(found: Any) -> list[Any]:
    if found is None:
        return []
    return list(found) if isinstance(found, list) else [found]
