"""The policy that a command's options make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from graphmill.core.errors import UsageError
from graphmill.engine.policy import Policy, Retry
from graphmill.journal.manifest import policy_from
from graphmill.journal.records import RunRecord

_OPTION_OF = {"concurrency": "--concurrency", "timeout_s": "--timeout", "max_failures": "--max-failures"}


def policy_of(
    *,
    concurrency: int | None,
    retries: int,
    timeout: float | None,
    adaptive: bool = False,
    max_failures: str | None = None,
) -> Policy:
    """Make the policy; a value that it refuses is named as the option it came from."""
    tolerated = None if max_failures is None else _tolerance(max_failures)
    with _named(max_failures):
        return Policy(
            concurrency=concurrency,
            adaptive=adaptive,
            retry=Retry(attempts=retries + 1),
            timeout_s=timeout,
            max_failures=tolerated,
        )


def policy_again(run: RunRecord, timeout: float | None) -> Policy | None:
    """Give the policy that a run was begun with, and another time-out; None where that stays."""
    if timeout is None:
        return None
    with _named():
        return replace(policy_from(run.manifest.get("policy", {})), timeout_s=timeout)


@contextmanager
def _named(max_failures: str | None = None) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        name, space, rest = str(error).partition(" ")
        if name == "max_failures":
            raise _not_tolerated(max_failures) from error
        raise UsageError(_OPTION_OF.get(name, name) + space + rest) from error


def _tolerance(text: str) -> int | float:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else int(text)
    except ValueError:
        raise _not_tolerated(text) from None


def _not_tolerated(text: str | None) -> UsageError:
    return UsageError(f"--max-failures is a number such as 10, or a share such as 5% and up to 100%, not {text!r}")
