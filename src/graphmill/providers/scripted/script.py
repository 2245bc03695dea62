"""A script: what a model that does not exist answers, how fast, its faults, and how many requests it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any

import msgspec

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, Unavailable
from graphmill.core.model_call import FinishReason, ModelRequest
from graphmill.core.suggest import suggestion
from graphmill.core.usage import RateLimits, Usage
from graphmill.core.yaml import from_yaml

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
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


class Latency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long answers take: half up to ``median_s``, 99 % up to ``p99_s``; longer with more than ``knee`` at once."""

    median_s: Seconds
    p99_s: Seconds | None = None
    knee: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def seconds(self, chance: float, at_once: int) -> float:
        """Return the time of one answer."""
        seconds = self.median_s
        if self.p99_s and self.median_s:
            spread = math.log(self.p99_s / self.median_s) / _P99
            seconds *= math.exp(spread * NormalDist().inv_cdf(min(max(chance, 1e-6), 1 - 1e-6)))
        if self.knee:
            seconds *= max(1.0, at_once / self.knee)
        return seconds


class Throttle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many requests the server takes at once and per minute; a share is throttled in any case."""

    at_once: Annotated[int, msgspec.Meta(ge=1)] | None = None
    per_minute: Annotated[int, msgspec.Meta(ge=1)] | None = None
    share: Share = 0.0
    retry_after_s: Seconds | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to requests that match everything the rule names, or to a share of them."""

    item: str | int | tuple[str | int, ...] | None = None
    path: str | None = None
    model: str | None = None
    round: int | None = None
    sample: int | None = None
    attempt: int | None = None
    contains: str | None = None
    share: Share = 1.0
    answer: Any = None
    fault: str | None = None
    retry_after_s: Seconds | None = None
    latency: Latency | Seconds | None = None


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules, of which the first match applies, and how the server behaves; ``seed`` draws shares and latencies."""

    rules: tuple[Rule, ...] = ()
    latency: Latency | Seconds = 0.0
    throttle: Throttle = Throttle()
    seed: int = 0

    def rule_for(self, request: ModelRequest) -> Rule:
        """Return the rule that applies; without one the model repeats the prompt."""
        for number, rule in enumerate(self.rules):
            if not _matches(rule, request):
                continue
            if rule.share == 1.0 or draw_chance(request, f"{self.seed} rule {number}") < rule.share:
                return rule
        return Rule()


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


def read_script(path: str) -> Script:
    """Read a script from a YAML or JSON file; Unavailable says what is wrong with it."""
    try:
        script = msgspec.convert(from_yaml(Path(path).read_bytes()), Script)
    except OSError as error:
        raise Unavailable(f"cannot read the script {path}: {error.strerror}") from None
    except ValueError as error:
        raise Unavailable(f"the script {path} is not valid: {error}") from None
    for rule in script.rules:
        if rule.fault is not None and rule.fault not in FAULTS:
            near = suggestion(rule.fault, FAULTS)
            raise Unavailable(
                f"the script {path}: no fault {rule.fault!r:.60}{near}; known faults are {', '.join(FAULTS)}"
            )
    return script


def draw_chance(request: ModelRequest, salt: str) -> float:
    """Draw a number below 1, always the same for the same attempt of the same step of the same item."""
    origin = request.origin
    step = f"{origin.item}|{origin.path}|{origin.round}|{origin.sample}|{origin.attempt}"
    text = f"{salt}|{step}|{request.messages[-1].text}"
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=7).digest(), "big") / 2**56


def _matches(rule: Rule, request: ModelRequest) -> bool:
    origin = request.origin
    named: Mapping[str, Any] = {
        "path": origin.path,
        "model": request.model,
        "round": origin.round,
        "sample": origin.sample,
        "attempt": origin.attempt,
    }
    items = rule.item if isinstance(rule.item, tuple) else (rule.item,)
    return (
        (rule.item is None or origin.item in map(str, items))
        and all(getattr(rule, name) in (None, value) for name, value in named.items())
        and (rule.contains is None or any(rule.contains in message.text for message in request.messages))
    )
