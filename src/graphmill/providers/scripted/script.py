"""A script: rules for what a model that does not exist answers, how fast, and how much it bears."""

from __future__ import annotations

import math
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any

import msgspec

from graphmill.core.errors import Unavailable
from graphmill.core.model_call import ModelRequest
from graphmill.core.suggest import suggestion
from graphmill.core.yaml import from_yaml
from graphmill.providers.scripted.faults import FAULTS

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_P99 = NormalDist().inv_cdf(0.99)


class Latency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long answers take: half of them up to ``median_s``, all but one of a hundred up to ``p99_s``; beyond ``knee`` at once, longer."""

    median_s: Seconds
    p99_s: Seconds | None = None
    knee: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def seconds(self, chance: float, at_once: int) -> float:
        """Give the time of one answer."""
        spread = 0.0 if not self.p99_s or not self.median_s else math.log(self.p99_s / self.median_s) / _P99
        slower = max(1.0, at_once / self.knee) if self.knee else 1.0
        return self.median_s * math.exp(spread * NormalDist().inv_cdf(min(max(chance, 1e-6), 1 - 1e-6))) * slower


class Throttle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the server bears: so many requests at once, so many in a minute; a share is throttled in any case."""

    at_once: Annotated[int, msgspec.Meta(ge=1)] | None = None
    per_minute: Annotated[int, msgspec.Meta(ge=1)] | None = None
    share: Share = 0.0
    retry_after_s: Seconds | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is answered to a request that fits all that a rule names; of those that do, only to a share."""

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
    """Rules, of which the first that fits counts, and how the server behaves; ``seed`` draws shares and latencies."""

    rules: tuple[Rule, ...] = ()
    latency: Latency | Seconds = 0.0
    throttle: Throttle = Throttle()
    seed: int = 0

    def rule_for(self, request: ModelRequest) -> Rule:
        """Give the rule that counts; without one the model repeats what it was asked."""
        for number, rule in enumerate(self.rules):
            if _fits(rule, request) and (
                rule.share == 1.0 or chance(request, f"{self.seed} rule {number}") < rule.share
            ):
                return rule
        return Rule()


def read_script(path: str) -> Script:
    """Read a script from a YAML or JSON file; Unavailable says what is wrong with it, for nothing can be asked without it."""
    try:
        script = msgspec.convert(from_yaml(Path(path).read_bytes()), Script)
    except OSError as error:
        raise Unavailable(f"the script {path} can not be read: {error.strerror}") from None
    except ValueError as error:
        raise Unavailable(f"the script {path} can not be played: {error}") from None
    for rule in script.rules:
        if rule.fault is not None and rule.fault not in FAULTS:
            near = suggestion(rule.fault, FAULTS)
            raise Unavailable(
                f"the script {path}: there is no fault {rule.fault!r:.60}{near}; there are {', '.join(FAULTS)}"
            )
    return script


def chance(request: ModelRequest, salt: str) -> float:
    """Draw a number below 1 that is the same for the same attempt of the same step of the same item."""
    origin = request.origin
    text = f"{salt}|{origin.item}|{origin.path}|{origin.round}|{origin.sample}|{origin.attempt}|{request.messages[-1].text}"
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=7).digest(), "big") / 2**56


def _fits(rule: Rule, request: ModelRequest) -> bool:
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
