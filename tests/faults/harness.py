"""The kill harness: draws a night from a seed, kills the command as it says, drives the run to its end, and lets the checker judge."""

import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from faults import effects
from faults.checker import disagreements, problems
from faults.points import EACH, POINTS
from faults.project import RUN, Project, ended
from support.command import rows

MOST_RESUMES = 3
MORE_LINES = 6


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A kill from outside: when the log has so many lines more, and then some seconds later."""

    lines: int
    delay_s: float


@dataclass(frozen=True, kw_only=True)
class Point:
    """A kill from inside: at the n-th visit of a named point."""

    name: str
    number: int


@dataclass(frozen=True, kw_only=True)
class Night:
    """A run and the kills it will have. At most two: later ones find items that run alone and are taken for poison."""

    seed: object
    items: tuple
    concurrency: int
    kills: tuple

    @classmethod
    def of(cls, seed, *, points=None):
        """Draw a night; ``points``, if given, are where it is to be killed, else it is killed twice at any moment or point."""
        random = Random(f"night {seed}")
        count, concurrency = random.randint(24, 60), random.choice([1, 2, 4, 8])
        ms = tuple(random.choice([0, 1, 2, 5, 10, 20]) for _ in range(7))
        fails = {random.randrange(count): random.choice(["once", "always"]) for _ in range(random.choice([0, 0, 1, 2]))}
        if points is None:
            kills = [_drawn(random, count, _EARLY), _drawn(random, count, _LATE)]
        else:
            kills = [_at(random, count, point) for point in points]
        return cls(
            seed=seed,
            items=tuple(effects.items(count, ms=ms, fails=fails)),
            concurrency=concurrency,
            kills=tuple(kills),
        )


_EARLY = tuple(
    point for point in POINTS if point.partition("-")[2] not in ("ending", "release", "rename")
)  # these leave nothing to kill
_LATE = tuple(point for point in POINTS if "creation" not in point)  # a run is created once


def _drawn(random, count, points):
    """Draw a kill that comes while there is still something to do: two of them fit into a night."""
    if random.random() < 0.3:
        return _at(random, count, random.choice(points))
    if points is _EARLY and random.random() < 0.15:
        return Moment(lines=0, delay_s=random.uniform(0, 0.1))
    return Moment(lines=random.randint(1, count // 3), delay_s=random.choice([0, random.uniform(0, 0.02)]))


def _at(random, count, point):
    """Draw at which visit: there are as many attempts as items, fewer commits, and of the rest one."""
    most = dict.fromkeys(EACH, count // 4) | {"commit": 3}
    return Point(name=point, number=random.randint(1, most.get(point.partition("-")[2], 1)))


@dataclass(kw_only=True)
class Played:
    """What came of a night."""

    killed: int = 0
    problems: list = field(default_factory=list)


def play(night, folder, *, is_thorough=True):
    """Play a night in a folder; a thorough one asks every command that reads, and not only the last one for its output."""
    project, played = Project(folder, night.items, concurrency=night.concurrency), Played()
    for kill in night.kills:
        played.killed += begin_or_go_on(project, kill).is_killed
        played.problems += half_exports(project)
    for _ in range(MOST_RESUMES):
        last = begin_or_go_on(project, None)
        if last.code in (0, 3):
            break
    wanted = 3 if any(item["fails"] == "always" for item in project.items) else 0
    if last.code != wanted:
        return Played(
            killed=played.killed, problems=[*played.problems, f"the last command ended with {last.code}: {last.err}"]
        )
    found = rows(project.out / "results.jsonl")
    played.problems += problems(project, found, kills=played.killed)
    if is_thorough:
        played.problems += disagreements(project, found)
    return played


def begin_or_go_on(project, kill):
    """Resume, or begin if there is nothing yet to resume."""
    if project.store.exists():
        done = _killed(project, ["resume", RUN, "--output", "out/results.jsonl"], kill)
        if done.code != 2:
            return done
    return _killed(project, [*project.batch, "--output", "out/results.jsonl"], kill)


def _killed(project, arguments, kill):
    if kill is None:
        return project.run(*arguments)
    if isinstance(kill, Point):
        return project.run(*arguments, launch=(kill.name, kill.number))
    lines = effects.count_lines(project.log) + kill.lines
    project.shut(at=lines + MORE_LINES)  # it must not be at its end before the kill comes, however late that is
    with project.start(*arguments) as command:
        while effects.count_lines(project.log) < lines and _waits(command, 0.001):
            pass
        _waits(command, kill.delay_s)
        command.process.kill()
        command.wait()
    project.open()
    return ended(command)


def _waits(command, for_s):
    """Let the command go on for some time; tell whether it still does."""
    with suppress(subprocess.TimeoutExpired):
        command.process.wait(timeout=for_s)
    return command.process.poll() is None


def half_exports(project):
    """An export is whole or absent, whenever one looks."""
    for path in project.out.glob("*.jsonl"):
        found = len(rows(path))
        if found != len(project.items):
            yield f"{path.name} has {found} rows of {len(project.items)}"
