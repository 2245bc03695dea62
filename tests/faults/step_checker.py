"""What must hold of a run of many steps when it has been driven to its end, whatever was done to it on the way."""

from collections import Counter
from itertools import takewhile

from faults.step_effects import UNSAFE, effects
from faults.summary import steps_held


def problems(project, found, *, whole, committed=()):
    """Compare exported rows with those of an undisturbed run, and the log of effects with what was committed at each kill.

    ``whole`` are the rows of the undisturbed run by id; ``committed`` gives for each kill how many lines the log had, and which
    steps the store.
    """
    log = effects(project.log)
    return [
        *_rows(project, found, whole, committed),
        *_again(log, committed),
        *_repeats(log, project.concurrency if committed else 0),
        *_unsafe(log),
        *_steps(project),
    ]


def _rows(project, found, whole, committed):
    ids = Counter(row["id"] for row in found)
    wanted = {item["id"] for item in project.items}
    if set(ids) != wanted or ids.total() != len(wanted):
        yield f"there are rows of {dict(ids)}, not one each of {sorted(wanted)}"
    for row in found:
        same = whole[row["id"]]
        if committed and _is_ambiguous(row) and not any((row["id"], UNSAFE) in steps for _, steps in committed):
            continue
        if told(row) != told(same):
            yield f"{row['id']} is {told(row)}, not {told(same)}"
        if row["attempts"] not in {1, same["attempts"]}:
            yield f"{row['id']} has {row['attempts']} attempts, not {same['attempts']}"


def told(row):
    flags = {name: value for name, value in row["metadata"].items() if name != "generation"}
    return {name: row[name] for name in ("status", "output", "error")} | flags


def _is_ambiguous(row):
    """An unsafe step that was under way at a kill is not done again; nobody knows whether it has happened."""
    error = row["error"] or {"kind": "", "message": ""}
    return error["kind"] == "ambiguous" and f"(in node '{UNSAFE}')" in error["message"]


def _again(log, committed):
    """What was committed at a kill is not started after it."""
    for lines, steps in committed:
        for effect in log[lines:]:
            if effect.word == "start" and effect.place in steps:
                yield f"{effect.place} was committed, and started again"


def _repeats(log, concurrency):
    """Of what a process has started, others start again at most twice the concurrency: what it was about, or had not committed."""
    for pid in dict.fromkeys(effect.pid for effect in log):
        before = len(list(takewhile(lambda effect, pid=pid: effect.pid != pid, log)))
        own = {effect.place: effect.word for effect in log if effect.pid == pid}
        later = {effect.place for effect in log[before:] if effect.pid != pid and effect.word == "start"}
        repeats = [place for place, word in own.items() if word != "retry" and place in later]
        if len(repeats) > 2 * concurrency:
            yield f"{len(repeats)} attempts were repeated after a kill at concurrency {concurrency}: {repeats}"


def _unsafe(log):
    started = Counter(effect.id for effect in log if effect.word == "start" and effect.path == UNSAFE)
    yield from (f"{UNSAFE} of {name} was started {count} times" for name, count in started.items() if count > 1)


def _steps(project):
    """An outcome is recorded once."""
    yield from (f"{place} has {count} rows" for place, count in Counter(steps_held(project)).items() if count > 1)
