"""The policy that a command's options make."""

from __future__ import annotations

from graphmill.core.errors import UsageError
from graphmill.engine.policy import Policy, Retry

_OPTION_OF = {"concurrency": "--concurrency", "timeout_s": "--timeout", "max_failures": "--max-failures"}


def policy_of(
    *, concurrency: int | None, retries: int, timeout: float | None, adaptive: bool = False, max_failures: str | None = None
) -> Policy:
    """Make the policy; a value that it refuses is named as the option it came from."""
    tolerated = None if max_failures is None else _tolerance(max_failures)
    try:
        return Policy(
            concurrency=concurrency, adaptive=adaptive, retry=Retry(attempts=retries + 1), timeout_s=timeout, max_failures=tolerated
        )
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
