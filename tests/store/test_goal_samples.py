"""Tests for samples of SLO attainment over time."""

from gpusquad.store import goal_samples
from gpusquad.store.goal_samples import GoalSample


def test_goal_samples_are_returned_in_order_of_time(database):
    rows = [GoalSample("a", 10, 0.5, 1.0), GoalSample("b", 10, None, None), GoalSample("a", 20, 1.0, 2.0)]
    with database.write() as c:
        goal_samples.append(c, rows[:2])
        goal_samples.append(c, rows[2:])
        assert [(sample.job_id, sample.at_us) for sample in goal_samples.since(c, 0)][-1] == ("a", 20)
        assert goal_samples.since(c, 11) == [rows[2]]
        assert goal_samples.since(c, 0, limit=1) == [rows[2]]
        assert goal_samples.trim(c, 11) == 2
        assert goal_samples.since(c, 0) == [rows[2]]
