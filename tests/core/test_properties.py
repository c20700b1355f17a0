"""Properties that hold after every cycle: consistent accounting, complete gangs, and every job ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.state.state import SchedulerState
from gpusquad.model.placement import Placement
from gpusquad.registry import names
from gpusquad.sim.simulator import exact, user
from tests.audit import audit
from tests.strategies import Load, examples, loads, plain_clusters, single_cards

PLAN_WITH_PATIENCE = "easy:backfill=merit,patience_s=0.002,wide=0.5,aged_s=0.005"
PLANS = ["none", "easy", "easy:backfill=shortest", "easy:reservations=3", "conservative", PLAN_WITH_PATIENCE]
ORDERS = ["fifo", "sjf", "srpt", "las", "drf", "fairshare", "slo", "urgent"]
ENDS = {"succeeded", "failed", "timed_out", "refused"}


def rows(result):
    return [(o.job.id, o.end, o.started_us, o.ended_us, [s.cards for s in o.spans]) for o in result.outcomes]


def check_every_job_ended(result) -> None:
    unfinished = [o.job.id for o in result.outcomes if o.end not in ENDS]
    assert not unfinished, f"never finished: {unfinished}"


# -- accounting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
@examples(20)
@given(load=loads(estimates="any", fates=True, priorities=True))
def test_nothing_is_over_allocated_and_every_job_ends(plan: str, load: Load):
    check_every_job_ended(load.run(plan, forecast=user, on_cycle=audit))


@pytest.mark.parametrize("plan", PLANS)
@examples(15)
@given(load=loads(estimates="any", windows=True, incidents=True))
def test_accounting_is_consistent_through_incidents_and_maintenance(plan: str, load: Load):
    check_every_job_ended(load.run(plan, forecast=user, on_cycle=audit))


@examples(25)
@given(load=loads(estimates="any", elastic=True))
def test_elastic_gangs_stay_within_their_bounds(load: Load):
    check_every_job_ended(load.run(forecast=user, on_cycle=audit))


@examples(37)
@given(load=loads(estimates="any", priorities=True), order=st.sampled_from(ORDERS), plan=st.sampled_from(PLANS))
def test_accounting_is_consistent_with_every_order(load: Load, order: str, plan: str):
    check_every_job_ended(load.run(plan, order, forecast=user, on_cycle=audit))


@examples(37)
@given(load=loads(estimates="any"), place=st.sampled_from(names("place")), plan=st.sampled_from(PLANS))
def test_accounting_is_consistent_with_every_place(load: Load, place: str, plan: str):
    check_every_job_ended(load.run(plan, place=place, forecast=user, on_cycle=audit))


# -- no idle cards that a pending job could use ---------------------------------------------------------------------


@pytest.mark.parametrize("plan", ["easy", "easy:reservations=3", "conservative", PLAN_WITH_PATIENCE])
@examples(20)
@given(load=loads(estimates="any", incidents=True))
def test_every_job_that_fits_has_started_when_there_is_no_reservation(plan: str, load: Load):
    def check_no_job_fits(state: SchedulerState, now_us: int) -> None:
        if state.timeline.reservations:
            return
        for waiting in state.queue:
            placed = state.try_place(state.space.copy(), waiting.job)
            assert not isinstance(placed, Placement), f"{waiting.job.id} waits and fits at {now_us}"

    load.run(plan, forecast=user, on_cycle=check_no_job_fits)


@examples(50)
@given(load=loads(plain_clusters(), single_cards, estimates="over", mixed=False, most=14),
       backfill=st.sampled_from(["order", "shortest"]))  # fmt: skip
def test_easy_starts_every_job_that_does_not_delay_the_head(load: Load, backfill: str):
    """Shadow time and spare cards are computed from the runs alone."""

    def check_against_a_count(state: SchedulerState, now_us: int) -> None:
        waiting = list(state.queue)
        if not waiting:
            return
        head, *others = waiting
        idle = load.cluster.gpus - sum(run.job.gpus for run in state.runs.by_id.values())
        assert head.job.gpus > idle, f"{head.job.id} is the head, fits and waits"
        free, shadow_us = idle, now_us
        for run in sorted(state.runs.by_id.values(), key=lambda run: run.end_us):
            if free >= head.job.gpus and run.end_us > shadow_us:
                break
            free, shadow_us = free + run.job.gpus, run.end_us
        spare = free - head.job.gpus
        for other in others:
            in_time = now_us + other.prediction.high_us <= shadow_us
            harmless = other.job.gpus <= idle and (in_time or other.job.gpus <= spare)
            assert not harmless, f"{other.job.id} could start at {now_us} without delaying {head.job.id}"

    load.run(f"easy:backfill={backfill}", forecast=user, on_cycle=check_against_a_count)


# -- determinism ---------------------------------------------------------------------------------------------------


@examples(15)
@given(load=loads(estimates="any", windows=True, incidents=True, elastic=True),
       plan=st.sampled_from(PLANS), place=st.sampled_from(names("place")))  # fmt: skip
def test_same_scenario_gives_the_same_rows(load: Load, plan: str, place: str):
    assert rows(load.run(plan, place=place, forecast=user)) == rows(load.run(plan, place=place, forecast=user))


@pytest.mark.parametrize("plan", PLANS)
@examples(20)
@given(load=loads())
def test_incremental_cycle_decides_like_a_full_cycle(plan: str, load: Load):
    def try_every_job(state: SchedulerState, now_us: int) -> None:
        state.capacity_unchanged = False

    quick = load.run(plan, forecast=exact)
    thorough = load.run(plan, forecast=exact, on_cycle=try_every_job)
    assert [(o.job.id, o.started_us) for o in quick.outcomes] == [(o.job.id, o.started_us) for o in thorough.outcomes]
