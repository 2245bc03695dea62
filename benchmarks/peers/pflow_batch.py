"""The batch of batch.pflow.md, run in this process by the predecessor's own runner, without a trace and without its cache."""

from __future__ import annotations

import http.client  # noqa: F401  before the scan of its nodes, which puts a module called http in the way
import json
import logging
import sys
import time
from importlib.metadata import version

from pflow.execution.result import RunnerConfig
from pflow.execution.runner import WorkflowRunner


def _cpu_s(workflow: str, items: int) -> float:
    config = RunnerConfig(trace_enabled=False, cache_enabled=False)
    began = time.process_time()
    result = WorkflowRunner().run(workflow, {"count": items}, config)
    spent = time.process_time() - began
    if not result.success or result.shared_after["succeeded"] != items:
        raise RuntimeError(f"pflow did not double {items} numbers: nothing was measured; {result.errors}")
    return spent


def _main(workflow: str, items: str) -> None:
    logging.disable(logging.CRITICAL)
    _cpu_s(workflow, 1)  # the first imports, and writes its registry
    print(json.dumps({"version": version("pflow-cli"), "cpu_s_per_item": _cpu_s(workflow, int(items)) / int(items)}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
