"""A workflow of one http node, run through the public door."""

import json

import graphmill as gm

PROMPT = gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0), timeout_s=60)


def workflow(folder, params, **node):
    """Write a workflow with one http node whose templates may use ``${value}``."""
    path = folder / "ask.json"
    spec = {"inputs": {"value": {"default": None}}, "nodes": [{"id": "ask", "type": "http", "params": params, **node}]}
    path.write_text(json.dumps(spec), encoding="utf-8")
    return path


def asked(folder, params, value=None, *, policy=PROMPT, **node):
    """Send one request; give the result of its job."""
    (result,) = gm.batch(
        gm.load(workflow(folder, params, **node)), [{"value": value}], policy=policy, journal="memory:"
    ).results()
    return result


def answered(folder, params, value=None, **options):
    """Send one request that goes well; give what the node gave."""
    result = asked(folder, params, value, **options)
    assert result.error is None, result.error
    return result.output


def refused(folder, params, value=None, **options):
    """Send, or try to, one request that fails for good at its first attempt; give the message."""
    result = asked(folder, params, value, **options)
    assert result.status == "failed"
    assert (result.error.kind, result.attempts) == ("permanent", 1), result.error
    return result.error.message
