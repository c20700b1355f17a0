"""What must hold after every single cycle, whatever comes: the books, the gangs, and nobody forgotten."""

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

PATIENT = "easy:backfill=merit,patience_s=0.002,wide=0.5,aged_s=0.005"
PLANS = ["none", "easy", "easy:backfill=shortest", "easy:reservations=3", "conservative", PATIENT]
ORDERS = ["fifo", "sjf", "srpt", "las", "drf", "fairshare", "slo", "urgent"]
ENDS = {"succeeded", "failed", "timed_out", "refused"}


def rows(result):
    return [(o.job.id, o.end, o.started_us, o.ended_us, [s.cards for s in o.spans]) for o in result.outcomes]


def nobody_lost(result) -> None:
    left = [o.job.id for o in result.outcomes if o.end not in ENDS]
    assert not left, f"never finished: {left}"


# -- the books -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
@examples(20)
@given(load=loads(estimates="any", fates=True, priorities=True))
def test_nothing_is_over_allocated_and_nobody_lost(plan: str, load: Load):
    nobody_lost(load.run(plan, forecast=user, on_cycle=audit))


@pytest.mark.parametrize("plan", PLANS)
@examples(15)
@given(load=loads(estimates="any", windows=True, incidents=True))
def test_the_books_hold_through_incidents_and_maintenance(plan: str, load: Load):
    nobody_lost(load.run(plan, forecast=user, on_cycle=audit))


@examples(25)
@given(load=loads(estimates="any", elastic=True))
def test_elastic_gangs_stay_within_their_bounds(load: Load):
    nobody_lost(load.run(forecast=user, on_cycle=audit))


@examples(37)
@given(load=loads(estimates="any", priorities=True), order=st.sampled_from(ORDERS), plan=st.sampled_from(PLANS))
def test_every_order_keeps_the_books(load: Load, order: str, plan: str):
    nobody_lost(load.run(plan, order, forecast=user, on_cycle=audit))


@examples(37)
@given(load=loads(estimates="any"), place=st.sampled_from(names("place")), plan=st.sampled_from(PLANS))
def test_every_place_keeps_the_books(load: Load, place: str, plan: str):
    nobody_lost(load.run(plan, place=place, forecast=user, on_cycle=audit))


# -- nobody idles cards that somebody could use --------------------------------------------------------------------


@pytest.mark.parametrize("plan", ["easy", "easy:reservations=3", "conservative", PATIENT])
@examples(20)
@given(load=loads(estimates="any", incidents=True))
def test_without_a_promise_in_the_way_whoever_fits_has_started(plan: str, load: Load):
    def nobody_fits(state: SchedulerState, now_us: int) -> None:
        if state.timeline.reservations:
            return
        for waiting in state.queue:
            placed = state.try_place(state.space.copy(), waiting.job)
            assert not isinstance(placed, Placement), f"{waiting.job.id} waits and fits at {now_us}"

    load.run(plan, forecast=user, on_cycle=nobody_fits)


@examples(50)
@given(load=loads(plain_clusters(), single_cards, estimates="over", mixed=False, most=14),
       backfill=st.sampled_from(["order", "shortest"]))  # fmt: skip
def test_easy_starts_everybody_who_delays_nobody(load: Load, backfill: str):
    """Worked out by hand from the runs alone: when the head can start, and what it leaves to others."""

    def by_hand(state: SchedulerState, now_us: int) -> None:
        waiting = list(state.queue)
        if not waiting:
            return
        head, *others = waiting
        idle = load.cluster.gpus - sum(run.job.gpus for run in state.runs.by_id.values())
        assert head.job.gpus > idle, f"{head.job.id} is first, fits and waits"
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

    load.run(f"easy:backfill={backfill}", forecast=user, on_cycle=by_hand)


# -- the same again gives the same ---------------------------------------------------------------------------------


@examples(15)
@given(load=loads(estimates="any", windows=True, incidents=True, elastic=True),
       plan=st.sampled_from(PLANS), place=st.sampled_from(names("place")))  # fmt: skip
def test_the_same_scenario_gives_the_same_rows(load: Load, plan: str, place: str):
    assert rows(load.run(plan, place=place, forecast=user)) == rows(load.run(plan, place=place, forecast=user))


@pytest.mark.parametrize("plan", PLANS)
@examples(20)
@given(load=loads())
def test_deciding_only_what_changed_gives_what_deciding_everything_gives(plan: str, load: Load):
    def look_at_everybody(state: SchedulerState, now_us: int) -> None:
        state.capacity_unchanged = False

    quick = load.run(plan, forecast=exact)
    thorough = load.run(plan, forecast=exact, on_cycle=look_at_everybody)
    assert [(o.job.id, o.started_us) for o in quick.outcomes] == [(o.job.id, o.started_us) for o in thorough.outcomes]
