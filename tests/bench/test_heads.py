"""How much later the first in line starts than if nobody had slipped in."""

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


def trace(name: str, submit_s: int, run_s: int, cards: int, said_s: int | None = None) -> TraceJob:
    role = Role("p", cards, Request(gpus=1))
    estimate_us = None if said_s is None else said_s * US_PER_S
    return TraceJob(Job(name, (role,), submitted_us=submit_s * US_PER_S, estimate_us=estimate_us), run_s * US_PER_S)


def as_said(one: TraceJob) -> RunTimePrediction:
    said_us = one.job.estimate_us or one.run_us
    return RunTimePrediction(said_us, said_us)


def test_who_stays_longer_than_said_is_seen():
    """``wide`` could start after an hour; ``liar`` said a minute, slipped in and stays for three hours."""
    jobs = [trace("first", 0, H, 3), trace("wide", 1, H, 4), trace("liar", 2, 3 * H, 1, said_s=60)]
    one = play(grid("4x1"), jobs, make_policies("fifo", "easy"), as_said, watch_heads=True)
    assert one.passed_h.tolist() == pytest.approx([2 + 2 / H])
    assert one.wait_s.tolist() == pytest.approx([0, 3 * H + 1, 0])


def test_nobody_is_passed_where_nobody_may_pass():
    jobs = [trace("first", 0, H, 3), trace("wide", 1, H, 4), trace("liar", 2, 3 * H, 1, said_s=60)]
    one = play(grid("4x1"), jobs, make_policies("fifo", "none"), as_said, watch_heads=True)
    assert one.passed_h.max() == 0
    assert len(one.passed_h) == 2


def test_slipping_in_at_the_very_instant_of_the_promise_counts():
    """Both come at once: the promise is made before the other slips in, so its stay is a delay."""
    jobs = [trace("first", 0, H, 3), trace("wide", 1, H, 4), trace("liar", 1, 2 * H, 1, said_s=60)]
    one = play(grid("4x1"), jobs, make_policies("fifo", "easy"), as_said, watch_heads=True)
    assert one.passed_h.tolist() == pytest.approx([1 + 1 / H])


def test_it_is_left_out_unless_asked_for():
    one = play(grid("4x1"), [trace("first", 0, H, 3), trace("wide", 1, H, 4)], make_policies("fifo", "easy"), exact)
    assert not len(one.passed_h)


logs = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(1, 4), st.integers(1, 60)), min_size=1, max_size=14
)


@given(logs, st.sampled_from(["fifo", "merit", "sjf"]), st.sampled_from(["easy", "easy:backfill=shortest", "none"]))
def test_nobody_starts_sooner_for_being_passed(rows, order, plan):
    jobs = [trace(f"j{i}", *row) for i, row in enumerate(sorted(rows))]
    one = play(grid("4x1"), jobs, make_policies(order, plan), as_said, watch_heads=True)
    assert (one.passed_h >= 0).all()


@given(logs)
def test_exact_knowledge_delays_no_first_in_line(rows):
    """EASY's own promise, if everybody is as long as foretold."""
    jobs = [trace(f"j{i}", *row) for i, row in enumerate(sorted(rows))]
    one = play(grid("4x1"), jobs, make_policies("fifo", "easy"), exact, watch_heads=True)
    assert not np.any(one.passed_h)


@given(logs)
def test_watching_changes_nothing(rows):
    jobs = [trace(f"j{i}", *row) for i, row in enumerate(sorted(rows))]
    policies = make_policies("fifo", "easy:backfill=merit,patience_s=20,aged_s=30")
    watched = play(grid("4x1"), jobs, policies, as_said, watch_heads=True)
    alone = play(grid("4x1"), jobs, policies, as_said)
    assert watched.wait_s.tolist() == alone.wait_s.tolist()
