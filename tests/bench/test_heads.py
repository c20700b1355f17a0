"""Tests of the delay of the head of the queue by backfilled jobs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench._play import play
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.simulator import exact
from gpusquad.sim.traces import TraceJob

H = 3600


def trace(name: str, submit_s: int, run_s: int, cards: int, estimate_s: int | None = None) -> TraceJob:
    role = Role("p", cards, Request(gpus=1))
    estimate_us = None if estimate_s is None else estimate_s * US_PER_S
    return TraceJob(Job(name, (role,), submitted_us=submit_s * US_PER_S, estimate_us=estimate_us), run_s * US_PER_S)


def by_estimate(trace_job: TraceJob) -> RunTimePrediction:
    predicted_us = trace_job.job.estimate_us or trace_job.run_us
    return RunTimePrediction(predicted_us, predicted_us)


def test_overrun_of_a_backfilled_job_is_counted():
    """``wide`` could start after an hour. ``liar``, estimated at a minute, is backfilled and runs for three hours."""
    jobs = [trace("first", 0, H, 3), trace("wide", 1, H, 4), trace("liar", 2, 3 * H, 1, estimate_s=60)]
    result = play(grid("4x1"), jobs, make_policies("fifo", "easy"), by_estimate)
    assert result.passed_h.tolist() == pytest.approx([2 + 2 / H])
    assert result.wait_s.tolist() == pytest.approx([0, 3 * H + 1, 0])


def test_head_is_not_delayed_without_backfill():
    jobs = [trace("first", 0, H, 3), trace("wide", 1, H, 4), trace("liar", 2, 3 * H, 1, estimate_s=60)]
    result = play(grid("4x1"), jobs, make_policies("fifo", "none"), by_estimate)
    assert result.passed_h.tolist() == [0, 0]


def test_backfill_at_the_instant_of_the_reservation_counts():
    """Both are submitted together. The reservation is made before the backfill, so the overrun counts as a delay."""
    jobs = [trace("first", 0, H, 3), trace("wide", 1, H, 4), trace("liar", 1, 2 * H, 1, estimate_s=60)]
    result = play(grid("4x1"), jobs, make_policies("fifo", "easy"), by_estimate)
    assert result.passed_h.tolist() == pytest.approx([1 + 1 / H])


logs = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(1, 4), st.integers(1, 60)), min_size=1, max_size=14
)


@given(logs, st.sampled_from(["fifo", "merit", "sjf"]), st.sampled_from(["easy", "easy:backfill=shortest", "none"]))
def test_delays_are_never_negative(rows, order, plan):
    jobs = [trace(f"j{i}", *row) for i, row in enumerate(sorted(rows))]
    result = play(grid("4x1"), jobs, make_policies(order, plan), by_estimate)
    assert (result.passed_h >= 0).all()


@given(logs)
def test_exact_predictions_delay_no_head(rows):
    """EASY delays no reservation if all run times are predicted exactly."""
    jobs = [trace(f"j{i}", *row) for i, row in enumerate(sorted(rows))]
    result = play(grid("4x1"), jobs, make_policies("fifo", "easy"), exact)
    assert not np.any(result.passed_h)
