"""A job that was promised a start, and then does not fit on what is in service."""

from __future__ import annotations

import pytest

from gpusquad.core.cycle import cycle
from gpusquad.core.explain.explain import when, why
from gpusquad.core.planning.outage import GIVEN_UP_US
from gpusquad.core.ports import CardChanged
from gpusquad.core.snapshot.dump import dump_snapshot, load_snapshot
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import grid
from gpusquad.model.job import Request
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import user
from gpusquad.sim.traces import TraceJob
from tests.audit import audit
from tests.strategies import Load, gang, make_trace, starts_s

S = 1_000_000
LOST = "n0/7"
AHEAD = (gang("ahead", 6, 600), gang("head", 8, 100, 1))
"""Six of eight cards are in use for 10 minutes, and the head needs all of them."""


def play(back_s: int, *later: TraceJob, lost_s: int = 10, plan: str = "easy", order: str = "fifo") -> SimulationResult:
    incidents = ((lost_s * S, CardChanged(LOST, False)), (back_s * S, CardChanged(LOST, True)))
    load = Load(grid("1x8"), (*AHEAD, *later), incidents=incidents)
    return load.run(plan, order, forecast=user, on_cycle=audit)


def seconds(result: SimulationResult, name: str = "head") -> float:
    start_s = starts_s(result)[name]
    assert start_s is not None
    return start_s


@pytest.mark.parametrize("plan", ["easy", "easy:backfill=shortest", "easy:reservations=3", "conservative"])
@pytest.mark.parametrize("back_s", [100, 650, 1300, 3000, 5000])
def test_liars_during_the_outage_delay_the_head_once(back_s: int, plan: str):
    """They say five minutes and take twenty. Those that run when the card returns are the last."""
    liars = [gang(f"liar{i:03}", 1, 1200, 20 + i, estimate=300) for i in range(30)]
    result = play(back_s, *liars, plan=plan)
    assert seconds(result) <= max(600, back_s) + 1200
    assert not [one for one in liars if max(600, back_s) <= seconds(result, one.job.id) < seconds(result)]


def test_nobody_starts_while_a_guest_has_outlived_its_time():
    liar = gang("liar", 1, 3000, 20, estimate=300)
    result = play(5000, liar, *(gang(f"g{i}", 1, 60, 400 + 10 * i) for i in range(5)))
    assert all(seconds(result, f"g{i}") >= 3020 for i in range(5))


def test_guests_stay_for_as_long_as_the_outage_has_taken():
    """Honest ones: the outage costs the head at most its own length again."""
    result = play(4000, *(gang(f"g{i}", 1, 1800, 650 + i) for i in range(40)))
    assert seconds(result, "g0") == 600 + 1800
    assert seconds(result) <= 4000 + 1800


def test_guests_are_gone_by_the_promised_start():
    """It can still be kept."""
    result = play(500, gang("short", 1, 400, 20), gang("long", 1, 900, 20))
    assert seconds(result) == 600
    assert seconds(result, "short") == 20
    assert seconds(result, "long") > 600


def test_long_outage_does_not_keep_the_rest_idle():
    long = gang("long", 1, 50 * 3600, 650)
    result = play(20 * 3600, long)
    assert seconds(result, "long") == 600 + GIVEN_UP_US / S


def test_job_without_a_promised_start_keeps_nothing():
    """It was submitted during the outage."""
    result = play(1500, gang("wide", 8, 100, 2000), gang("long", 1, 9000, 2001), lost_s=1400)
    assert seconds(result, "wide") == 2000
    incidents = ((1 * S, CardChanged(LOST, False)), (5000 * S, CardChanged(LOST, True)))
    jobs = (gang("wide", 8, 100, 10), gang("long", 1, 9000, 20))
    result = Load(grid("1x8"), jobs, incidents=incidents).run("easy", forecast=user, on_cycle=audit)
    assert seconds(result, "long") == 20


def test_other_nodes_serve_all_jobs():
    """Only one of two nodes is kept for the head."""
    node = Request(gpus=8)
    jobs = (gang("a", 12, 600), make_trace("head", node, 100, 1), gang("l1", 4, 9000, 650), gang("l2", 4, 9000, 651))
    times = ((10, False), (2000, True))
    incidents = tuple((at_s * S, CardChanged(f"n{n}/7", ok)) for at_s, ok in times for n in (0, 1))
    result = Load(grid("2x8"), jobs, incidents=incidents).run("easy", forecast=user, on_cycle=audit)
    assert [seconds(result, name) for name in ("l1", "head")] == [650, 2000]
    assert seconds(result, "l2") >= 2000


@pytest.mark.parametrize(("binds", "start_s"), [("overstayed", 3020), ("never", 600)])
def test_plan_says_when_reservations_bind(binds: str, start_s: float):
    liar = gang("liar", 1, 3000, 20, estimate=300)
    result = play(5000, liar, gang("guest", 1, 60, 400), plan=f"easy:binds={binds}")
    assert seconds(result, "guest") == start_s


# -- answers -------------------------------------------------------------------------------------------------------


def lost() -> SchedulerState:
    state = SchedulerState(grid("1x8"), make_policies())
    for one in AHEAD:
        state.now_us = one.job.submitted_us
        state.enqueue(one.job, RunTimePrediction(one.run_us, one.run_us))
        cycle(state, state.now_us)
    state.space.set_card_ok(7, False)
    state.rebuild_reservations("card n0/7 was lost")
    cycle(state, 10 * S)
    state.finish("ahead")
    cycle(state, 700 * S)
    state.enqueue(gang("guest", 1, 300, 701).job, RunTimePrediction(300 * S, 300 * S))
    cycle(state, 701 * S)
    return state


def test_why_says_that_the_job_ahead_waits_for_what_is_out_of_service():
    state = lost()
    (reason,) = why(state, "guest")
    assert reason.code == ReasonCode.RESERVED
    assert reason.message == "would delay head (its start is not known: what it needs is out of service): it may run 5m"
    assert reason.cure == "a run of at most 2m can be backfilled"
    assert when(state, "guest").start_us == 900 * S
    assert when(state, "head").start_us is None


def test_outage_survives_a_snapshot():
    state = load_snapshot(dump_snapshot(lost()))
    cycle(state, 899 * S)
    assert "guest" in state.queue
    cycle(state, 900 * S)
    assert "guest" in state.runs
