"""What every test shares."""

import os
import signal

import pytest

from graphmill.core import pool

os.environ["LANGSMITH_TRACING"] = "false"  # LangGraph would tell a server of what the tests run

# What whoever started the tests ignores (nohup; a shell, for what is in the background) they ignore too, and nothing that they start.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


@pytest.fixture
def connecting(monkeypatch):
    """Give what sets how long a connection may take to be made: seconds, and of the time that there is for all."""

    def limit(**limits):
        for name, value in limits.items():
            monkeypatch.setattr(pool, name, value)
        pool.connect_timeout.cache_clear()

    yield limit
    monkeypatch.undo()
    pool.connect_timeout.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where everything must be there (GRAPHMILL_TEST_ALL=1), a test skipped for a missing part has failed."""
    report = yield
    if report.skipped and os.environ.get("GRAPHMILL_TEST_ALL") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but GRAPHMILL_TEST_ALL is set: {report.longrepr}"
    return report
