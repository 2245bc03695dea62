import time

import pytest

from graphmill.core.usage import RateLimit, RateLimits
from graphmill.http.headers import (
    parse_duration,
    read_anthropic_limits,
    read_openai_limits,
    read_plain_limits,
    read_retry_after,
)

NOW = {"date": "Mon, 16 Nov 2026 10:00:00 GMT"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("20ms", 0.02),
        ("1s20ms", 1.02),
        ("2m", 120.0),
        ("0", 0.0),
        ("7.25", 7.25),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.2.3s", None),
        ("1d", None),
        ("9" * 400, None),
    ],
)
def test_a_duration_is_read_in_all_its_forms(text, seconds):
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


def test_what_a_server_does_not_say_is_not_known():
    assert read_openai_limits({}) is None
    assert read_openai_limits({"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-limit-tokens": "-1"}) == RateLimits(
        tokens=RateLimit()
    )
    assert read_openai_limits({"x-ratelimit-remaining-requests": "5"}) == RateLimits(requests=RateLimit(remaining=5))
    assert read_openai_limits({"x-ratelimit-limit-requests": "9" * 99}) == RateLimits(requests=RateLimit())
    assert read_plain_limits({"x-ratelimit-limit-requests": "5"}) is None
    assert read_plain_limits({"retry-after": "5"}) == RateLimits(retry_after_s=5.0)


def test_limits_of_one_direction_are_read_by_moments():
    headers = {
        **NOW,
        "anthropic-ratelimit-input-tokens-limit": "50000",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-11-16T10:00:30Z",
        "anthropic-ratelimit-output-tokens-limit": "8000",
        "anthropic-ratelimit-output-tokens-remaining": "8000",
        "anthropic-ratelimit-output-tokens-reset": "never",
        "retry-after": "30",
    }
    assert read_anthropic_limits(headers) == RateLimits(
        input_tokens=RateLimit(allowed=50_000, remaining=0, reset_s=30.0),
        output_tokens=RateLimit(allowed=8000, remaining=8000),
        retry_after_s=30.0,
    )


@pytest.mark.parametrize("reset", ["30", "30s", "1794823230", "1794823230000"])
def test_a_server_that_names_no_unit_counts_requests_and_says_when_they_are_back_in_any_way(reset):
    headers = {**NOW, "x-ratelimit-limit": "100", "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
    assert read_openai_limits(headers) == RateLimits(requests=RateLimit(remaining=0, reset_s=30.0))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "Mon, 16 Nov 2026 10:01:00 GMT", **NOW}, 60.0),
        ({"retry-after": "Mon, 16 Nov 2026 09:00:00 GMT", **NOW}, 0.0),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e99"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_read_as_seconds_milliseconds_or_a_date(headers, seconds):
    assert read_retry_after(headers) == seconds


def test_a_date_without_the_server_s_own_is_compared_with_ours():
    late = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))
    assert 90 < read_retry_after({"retry-after": late}) <= 100
