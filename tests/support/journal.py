"""Short ways to fill a store through its ports, as the owner of a run does."""

from graphmill.core.json import canonical, digest, item_key
from graphmill.core.result import Kind, Status
from graphmill.journal.records import FINISHED, AttemptRow, ResultRow, RunRow, RunState, RunStatus, StepRow

MANIFEST = {
    "graph": {"name": "reviews", "kind": "workflow", "path": "w.yaml"},
    "source": "items.jsonl",
    "policy": {"concurrency": 10},
}


def failure(message, kind=Kind.PERMANENT):
    return {
        "kind": str(kind),
        "type": "graphmill.Permanent",
        "message": message,
        "traceback": '  File "a.py", line 1, in f\n',
    }


def succeeded(item_id, position, output=None, *, generation=1):
    return _row(
        item_id, position, Status.SUCCEEDED, generation=generation, output={"ok": True} if output is None else output
    )


def failed(item_id, position, message="broken", *, kind=Kind.PERMANENT, status=Status.FAILED, attempts=1):
    return _row(item_id, position, status, kind=kind, error=failure(message, kind), attempts=attempts)


def _row(item_id, position, status, *, generation=1, kind=None, attempts=1, output=None, error=None):
    body = canonical({"id": item_id, "n": position})
    return ResultRow(
        key=item_key(item_id),
        generation=generation,
        item_id=item_id,
        position=position,
        content=digest(body),
        status=status,
        kind=kind,
        attempts=attempts,
        queued_s=0.25,
        duration_s=6.1,
        input=body,
        output=None if output is None else canonical(output),
        error=None if error is None else canonical(error),
    )


def attempt(item_id, number, message, *, kind=Kind.TRANSIENT):
    return AttemptRow(item_key(item_id), 1, "", number, kind, canonical(failure(message, kind)))


def step(item_id, path, output):
    return StepRow(item_key(item_id), 1, path, digest(path.encode()), 1, 2.5, canonical(output), None)


def begin(store, run_id, rows=(), *, total=None, manifest=MANIFEST):
    """Create a run, take it, and record rows: it is live until its ledger is released."""
    store.create(run_id, manifest)
    ledger = store.take(run_id)
    ledger.append([RunRow(total=len(rows) if total is None else total), *rows])
    return ledger


def end(ledger, state=RunState.FINISHED, reason=""):
    """Record how a run ended and let it go."""
    status = RunStatus(state, {RunState.PAUSED: "request", RunState.FAILED: "error"}.get(state, ""))
    ledger.append([RunRow(status=status, reason=reason, more_s=238.0, is_read=status == FINISHED)])
    ledger.release()


def record(store, run_id, rows=(), *, more=(), state=RunState.FINISHED, reason="", total=None, manifest=MANIFEST):
    """Record a run from its beginning to its end: results, and more rows of its items."""
    ledger = begin(store, run_id, rows, total=total, manifest=manifest)
    ledger.append(more)
    end(ledger, state, reason)
