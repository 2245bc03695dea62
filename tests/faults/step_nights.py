"""Nights of a workflow of many steps: a nested batch, a loop, error edges, a step that must not happen twice; killed several times."""

from dataclasses import dataclass, field
from random import Random

from faults import effects
from faults.harness import MOST_RESUMES, Moment, Point, begin_or_go_on, half_exports
from faults.points import FUNCTIONS
from faults.project import Project
from faults.step_checker import problems
from faults.step_effects import WORKFLOW, catalogue
from faults.summary import steps_held
from support.command import rows

STEPS = 60  # of an item, about
NAMES = ("attempt", "end", "step", "row", "enqueue", "commit")
POINTS = tuple(f"{side}-{name}" for name in FUNCTIONS if name in NAMES for side in ("before", "after"))


@dataclass(frozen=True, kw_only=True)
class StepNight:
    """A run and the kills it will have."""

    seed: object
    items: tuple
    concurrency: int
    kills: tuple

    @classmethod
    def of(cls, seed, *, points=None):
        """Draw a night; ``points``, if given, are where it is to be killed, else it is killed thrice at any moment or point."""
        random = Random(f"steps {seed}")
        items = random.sample(catalogue(), random.randint(2, 4))
        kills = (
            tuple(_drawn(random) for _ in range(3)) if points is None else tuple(_at(random, point) for point in points)
        )
        return cls(seed=seed, items=tuple(items), concurrency=random.choice([1, 2, 4, 8]), kills=kills)


def _drawn(random):
    if random.random() < 0.5:
        return _at(random, random.choice(POINTS))
    return Moment(lines=random.randint(1, STEPS // 2), delay_s=random.choice([0, random.uniform(0, 0.02)]))


def _at(random, point):
    """Draw at which visit: of results there are few, and steps are committed several at once."""
    most = {"enqueue": 1, "commit": 5}.get(point.partition("-")[2], STEPS // 2)
    return Point(name=point, number=random.randint(1, most))


@dataclass(kw_only=True)
class Played:
    """What came of a night; of each kill, how many lines the log had, and which steps the store."""

    kills: list = field(default_factory=list)
    problems: list = field(default_factory=list)


def whole_rows(folder):
    """Run all items undisturbed; give their rows by id."""
    project = Project(folder, catalogue(), workflow=WORKFLOW)
    done = project.run(*project.batch)
    assert done.code == 0, done
    found = project.exported()
    assert problems(project, found, whole={row["id"]: row for row in found}) == []
    return {row["id"]: row for row in found}


def play(night, folder, whole):
    """Play a night in a folder."""
    project, played = Project(folder, night.items, concurrency=night.concurrency, workflow=WORKFLOW), Played()
    for kill in night.kills:
        if begin_or_go_on(project, kill).is_killed:
            played.kills.append((effects.count_lines(project.log), set(steps_held(project))))
        played.problems += half_exports(project)
    for _ in range(MOST_RESUMES):
        last = begin_or_go_on(project, None)
        if last.code in (0, 3):
            break
    if last.code not in (0, 3):
        played.problems.append(f"the last command ended with {last.code}: {last.err}")
        return played
    played.problems += problems(project, rows(project.out / "results.jsonl"), whole=whole, committed=played.kills)
    return played
