"""What every test shares."""

import os

import pytest

os.environ["LANGSMITH_TRACING"] = "false"  # LangGraph would tell a server of what the tests run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where everything must be there (GRAPHMILL_TEST_ALL=1), a test skipped for a missing part has failed."""
    report = yield
    if report.skipped and os.environ.get("GRAPHMILL_TEST_ALL") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but GRAPHMILL_TEST_ALL is set: {report.longrepr}"
    return report
