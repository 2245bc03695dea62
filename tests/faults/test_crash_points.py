"""G1, G5, G9: whatever call of the disk fails, or is the last of the process, the resumed run is the same as an undisturbed one."""

from random import Random

import pytest

from faults.crash_points import ACTIONS, Whole, problems
from faults.shim import Fault

SAMPLES = {"write": 8, "sync": 6, "rename": 1, "truncate": 1, "unlink": 1}
SAMPLED = [
    (kind, action, part) for kind, actions in ACTIONS.items() for action in actions for part in range(SAMPLES[kind])
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, library):
    return Whole(tmp_path_factory.mktemp("whole") / "project", library)


def test_commits_are_synced(whole):
    """No kill can tell: what is not synced is only lost with the machine. Not more than 2 × 3 results ever wait for a commit."""
    assert whole.counts["sync"] >= len(whole.rows) / 6 + 2  # and two for the output


@pytest.mark.parametrize(("kind", "action", "part"), SAMPLED)
def test_a_run_that_is_disturbed_at_any_call_ends_like_one_that_is_not(tmp_path, whole, kind, action, part):
    """One crash point of each stretch of the run; ``make soak`` goes through all of them."""
    count = whole.counts[kind]
    if not count:
        return
    first, last = part * count // SAMPLES[kind], (part + 1) * count // SAMPLES[kind]
    at = 1 + Random(f"{kind} {action} {part}").randrange(first, max(last, first + 1))
    fault = Fault(kind=kind, at=at, action=action)
    if found := problems(tmp_path / "project", whole, fault, is_thorough=part == 0):
        pytest.fail("\n".join([f"make soak FAULT={fault}", *found]), pytrace=False)
