"""G1, G2, G3: kill -9 in the midst of nested batches and loops; what is finished is not done again, and the end is the same."""

import pytest

from faults.step_nights import POINTS, StepNight, play, whole_rows

NIGHTS = 6


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return whole_rows(tmp_path_factory.mktemp("whole") / "project")


@pytest.mark.parametrize("seed", range(NIGHTS))
def test_a_workflow_that_is_killed_at_any_moment_ends_like_one_that_is_not(tmp_path, whole, seed):
    played = play(StepNight.of(seed), tmp_path / "project", whole)
    if played.problems:
        pytest.fail("\n".join([f"make soak STEPS={seed}", *played.problems]), pytrace=False)
    assert len(played.kills) >= 2


@pytest.mark.parametrize("point", POINTS)
def test_a_workflow_that_is_killed_at_a_named_point_ends_like_one_that_is_not(tmp_path, whole, point):
    played = play(StepNight.of(point, points=(point,)), tmp_path / "project", whole)
    assert played.problems == []
    assert len(played.kills) == 1
