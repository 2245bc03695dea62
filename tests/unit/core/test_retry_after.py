import time

import pytest

from graphmill.core.retry_after import retry_after_s

NOW = {"date": "Mon, 16 Nov 2026 10:00:00 GMT"}


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
    assert retry_after_s(headers) == seconds


def test_a_date_without_the_server_s_own_is_compared_with_ours():
    late = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))
    assert 90 < retry_after_s({"retry-after": late}) <= 100
