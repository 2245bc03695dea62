"""What must hold of a run when it has been driven to its end, whatever was done to it on the way."""

from collections import Counter
from operator import itemgetter

from faults.effects import answer, starts
from faults.project import RUN


def problems(project, found, *, kills):
    """Compare exported rows with the items and with the log of effects; list what is wrong."""
    return [*_rows(project, found), *_answers(project, found), *_repeats(project, kills)]


def disagreements(project, found):
    """Compare what ``export``, ``status`` and ``runs`` say of a run that has ended with its rows."""
    if sorted(project.exported(), key=itemgetter("id")) != sorted(found, key=itemgetter("id")):
        yield "the export is not what was put out"
    counted = Counter(row["status"] for row in found)
    listed = [run for run in project.told("runs")["runs"] if run["id"] == RUN]
    for word, told in (("status", project.told("status", RUN)), ("runs", listed[0] if len(listed) == 1 else {})):
        counts = told.get("counts") or {}
        if told.get("state") != "finished" or counts.get("total") != len(found) or counts.get("left") != 0:
            yield f"{word} says {told}, and there are {len(found)} rows"
        if any(counts.get(status) != count for status, count in counted.items()):
            yield f"{word} counts {counts}, and the rows are {counted}"


def _rows(project, found):
    ids = Counter(row["id"] for row in found)
    wanted = {item["id"] for item in project.items}
    yield from (f"{name} is lost" for name in sorted(wanted - set(ids)))
    yield from (f"{name} was never given" for name in sorted(set(ids) - wanted))
    yield from (f"{name} has {count} rows" for name, count in ids.items() if count > 1)


def _answers(project, found):
    ways = {item["id"]: item["fails"] for item in project.items}
    for row in found:
        way = ways.get(row["id"], "")
        wanted = (
            ("failed", None, "permanent") if way == "always" else ("succeeded", {"answer": answer(row["id"])}, None)
        )
        got = (row["status"], row["output"], row["error"] and row["error"]["kind"])
        if got != wanted:
            yield f"{row['id']} is {got}, not {wanted}"
        if row["attempts"] not in ({1, 2} if way == "once" else {1}):
            yield f"{row['id']} has {row['attempts']} attempts"


def _repeats(project, kills):
    """An attempt under way or not yet committed at a kill is repeated: at most twice the concurrency of them."""
    started = starts(project.log)
    retries = sum(item["fails"] == "once" for item in project.items)
    repeats = started.total() - len(project.items) - retries
    if repeats > 2 * project.concurrency * kills:
        yield f"{repeats} attempts were repeated after {kills} kills at concurrency {project.concurrency}"
    yield from (f"{item['id']} was never started" for item in project.items if not started[item["id"]])
