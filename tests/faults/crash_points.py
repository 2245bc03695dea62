"""The enumeration of crash points: one run, disturbed at its n-th call, resumed without faults, and held against an undisturbed one."""

import re

from faults.effects import items
from faults.project import RUN, Project
from faults.shim import Fault, Shim
from faults.summary import held, shown
from support.command import rows

HANG_S = 5 * 5.0  # five times what is promised for a journal that fails
ACTIONS = {
    "write": ("ENOSPC", "EIO", "short", "before", "torn"),
    "sync": ("EIO", "before", "after"),
    "rename": ("ENOSPC", "EIO", "before", "after"),
    "truncate": ("EIO", "before"),
    "unlink": ("EIO", "before"),
}
RESULTS = "out/results.jsonl"
# Files whose failing calls need not stop a run: into the database itself only a checkpoint writes, of what stays in the log until it is
# there; SQLite does not mind a folder that can not be synced; which items are under way is noted as well as can be; Git's list of
# what to leave out is a courtesy.
HARMLESS = re.compile(r"(/runs\.db|/\.graphmill|/out|/flight-\d+|/\.gitignore)$")


class Whole:
    """An undisturbed run: what it gives, and how many calls of each kind it makes."""

    def __init__(self, folder, library):
        self.library = library
        done, tally, project = attempt(folder, library, Fault())
        assert done.code == 0, done
        self.counts = tally.counts
        self.rows = outcomes(project.exported())

    def faults(self):
        """List every crash point there is."""
        return [
            Fault(kind=kind, at=at, action=action)
            for kind, actions in ACTIONS.items()
            for action in actions
            for at in range(1, self.counts[kind] + 1)
        ]


def attempt(folder, library, fault):
    """Run 30 items under a fault."""
    project = Project(folder, items(30, ms=(0, 1, 3)), concurrency=3)
    project.store.mkdir(mode=0o700)
    shim = Shim(library, folder, under=[project.store, project.out], fault=fault)
    done = project.run(*project.batch, "--json", "--output", RESULTS, variables=shim.variables, within_s=HANG_S)
    return done, shim.tally(), project


def outcomes(rows):
    """What is the same in every run: which item came to what."""
    return sorted((row["id"], row["status"], str(row["output"]), row["attempts"]) for row in rows)


def problems(folder, whole, fault, *, is_thorough=True):
    """Disturb a run at a crash point, see how it ends, finish it; list what is wrong. A thorough look exports it as well."""
    done, tally, project = attempt(folder, whole.library, fault)
    found = [*_ending(done, tally, fault)]
    if not fault.is_kill and shown(done) > held(project):
        found.append(f"{shown(done)} are said to be done, and {held(project)} are in the store")
    last = go_on(project)
    if last.code != 0:
        return [*found, f"hit {tally.hit}; then the resume ended with {last.code}: {last.err}"]
    put_out = outcomes(rows(project.folder / RESULTS))
    if put_out != whole.rows:
        found.append(f"hit {tally.hit}; the output differs: {set(put_out) ^ set(whole.rows)}")
    if is_thorough and outcomes(project.exported()) != put_out:
        found.append(f"hit {tally.hit}; the export is not what was put out")
    return found


def _ending(done, tally, fault):
    """A death is a death; a failure stops the command, unless it was harmless, and then it may."""
    if not tally.fired:
        wanted = {0}
    elif fault.is_kill:
        wanted = {-9}
    else:
        wanted = {0, 74} if is_harmless(tally.hit) else {74}
    if done.code not in wanted:
        yield f"hit {tally.hit or 'nothing'}; the command ended with {done.code}: {done.err}"
    if "Traceback" in done.err:
        yield f"hit {tally.hit}; there is a traceback: {done.err}"


def is_harmless(hit):
    """Tell whether a run may go on though this call failed: one of the HARMLESS, a sync of what was synced, something to tidy away."""
    return hit.startswith(("unlink", "idle")) or HARMLESS.search(hit) is not None


def go_on(project):
    """Finish a run without faults; begin it, if its first command did not come so far."""
    done = project.run("resume", RUN, "--output", RESULTS, within_s=HANG_S)
    return project.run(*project.batch, "--output", RESULTS, within_s=HANG_S) if done.code == 2 else done
