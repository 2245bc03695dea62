"""What every test shares."""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no fault
settings.load_profile("untimed")

os.environ["LANGSMITH_TRACING"] = "false"  # LangGraph would tell a server of what the tests run

# What whoever started the tests ignores (nohup; a shell, for what is in the background) they ignore too, and nothing that they start.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where everything must be there (GRAPHMILL_TEST_ALL=1), a test skipped for a missing part has failed."""
    report = yield
    if report.skipped and os.environ.get("GRAPHMILL_TEST_ALL") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but GRAPHMILL_TEST_ALL is set: {report.longrepr}"
    return report
