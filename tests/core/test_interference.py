"""Jobs that wait instead of sharing a card at a loss: reservations, reasons and when they start anyway."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.cycle import cycle
from gpusquad.core.explain.explain import why
from gpusquad.core.planning.slowdown import crowded_out
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.model.cluster import GIB, Card, Cluster, Node, grid
from gpusquad.model.decision import Start
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.placement import Placement
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.traces import TraceJob

THIRD = Request(share=Share(sm_milli=300))


def job(name: str, at_s: int = 0, request: Request = THIRD, count: int = 1) -> Job:
    return Job(name, (Role("w", count, request),), submitted_us=at_s * US_PER_S, app=name[0])


def constant_rate(ratio: float) -> Rate:
    return lambda own, others, gpu="": ratio if others else 1.0


def runs_s(seconds: int) -> RunTimePrediction:
    return RunTimePrediction(seconds * US_PER_S, seconds * US_PER_S)


def state_with(
    rate: Rate | None, cards: int = 1, plan: str = "easy", place: str = "interference:goal=work"
) -> SchedulerState:
    return SchedulerState(grid(f"1x{cards}"), make_policies("fifo", plan, place), rate=rate)


def started(state: SchedulerState, now_s: int = 0) -> list[str]:
    return [d.job_id for d in cycle(state, now_s * US_PER_S) if isinstance(d, Start)]


# -- use of the rate ------------------------------------------------------------------------------------------------


def test_rate_is_called_with_the_model_of_the_card():
    gpu_models = set()

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        gpu_models.add(gpu)
        return 0.9

    cluster = Cluster((Node("n", (Card("n/0", "H200", GIB),), 1000, GIB),))
    jobs = [TraceJob(job(name), US_PER_S) for name in ("a", "b", "c")]
    for place in ("interference", "binpack"):
        gpu_models.clear()
        simulate(Scenario(cluster, jobs, make_policies(place=place), exact, rate=rate))
        assert gpu_models == {"H200"}


def test_simulated_rate_may_differ_from_the_rate_the_scheduler_assumes():
    jobs = [TraceJob(job("a"), 100 * US_PER_S), TraceJob(job("b"), 100 * US_PER_S)]

    def ends(actual: float, assumed: float | None) -> list[float]:
        assumed_rate = None if assumed is None else constant_rate(assumed)
        scenario = Scenario(
            grid("1x1"),
            jobs,
            make_policies(place="interference"),
            exact,
            rate=constant_rate(actual),
            belief=assumed_rate,
        )
        return [(outcome.ended_us or 0) / US_PER_S for outcome in simulate(scenario).outcomes]

    assert ends(0.8, None) == [125, 125]
    assert ends(0.8, 0.3) == [100, 200]
    assert ends(0.4, 0.8) == [250, 250]


# -- waiting --------------------------------------------------------------------------------------------------------


def test_job_that_would_be_slowed_down_gets_a_reservation_and_a_reason():
    state = state_with(constant_rate(0.4))
    state.enqueue(job("a"), runs_s(100))
    state.enqueue(job("b"), runs_s(100))
    assert started(state) == ["a"]
    assert state.timeline.reservations["b"].start_us == 100 * US_PER_S
    (reason,) = why(state, "b")
    assert reason.code is ReasonCode.INTERFERENCE
    assert "n0/0 with a: it would run at 40% of its speed alone" in reason.message
    assert reason.cure.startswith("wait for an idle card")


def test_backfill_does_not_add_a_bad_neighbour_to_a_reservation():
    """b cannot share with a. c can, but would still run when b starts, and b cannot share with c either."""

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return 1.0 if all({own.app, other.app} == {"a", "c"} for other in others) else 0.3

    state = state_with(rate)
    for submitted, seconds in ((job("a"), 100), (job("b"), 100), (job("c"), 150), (job("c2"), 20)):
        state.enqueue(submitted, runs_s(seconds))
    assert started(state) == ["a", "c2"]
    assert state.timeline.reservations["b"].start_us == 100 * US_PER_S


def test_reservation_starts_when_the_neighbours_are_acceptable_not_when_it_first_fits():
    """At the first end there is room for b, but only beside a neighbour that slows it down."""
    full = Request(share=Share(sm_milli=500))
    state = state_with(lambda own, others, gpu="": 0.3 if "b" in {own.app, *(o.app for o in others)} else 0.9)
    for submitted, seconds in ((job("a1", request=full), 100), (job("a2", request=full), 200)):
        state.enqueue(submitted, runs_s(seconds))
    state.enqueue(job("b"), runs_s(10))
    assert started(state) == ["a1", "a2"]
    assert state.timeline.reservations["b"].start_us == 200 * US_PER_S


@pytest.mark.parametrize("plan", ["easy", "conservative", "none"])
def test_job_starts_beside_bad_neighbours_when_no_later_start_is_known(plan: str):
    state = state_with(constant_rate(0.4), plan=plan)
    for name in ("a", "b", "c"):
        state.enqueue(job(name), UNKNOWN)
    assert started(state) == ["a", "b", "c"]


@pytest.mark.parametrize("plan", ["easy", "conservative", "none"])
def test_job_never_starts_beside_neighbours_at_rate_zero(plan: str):
    state = state_with(constant_rate(0.0), plan=plan)
    for name in ("a", "b"):
        state.enqueue(job(name), UNKNOWN)
    assert started(state) == ["a"]


def test_gang_whose_tasks_must_share_cards_starts_despite_interference():
    state = state_with(constant_rate(0.4), cards=2)
    state.enqueue(job("a", count=3), runs_s(10))
    assert state.can_ever_run(job("a", count=3))
    assert started(state) == ["a"]


def test_crowded_out_reports_a_placement_at_rate_zero():
    state = state_with(constant_rate(0.0), place="binpack")
    for name in ("a", "b"):
        state.enqueue(job(name), runs_s(10))
    assert started(state) == ["a", "b"]
    placement = state.runs["b"].placement
    assert isinstance(placement, Placement)
    assert crowded_out(state, job("b"), placement)


# -- starvation -----------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40), st.booleans()), min_size=1, max_size=14),
    st.sampled_from([0.0, 0.1, 0.4]),
    st.sampled_from(["easy", "conservative", "none", "easy:backfill=shortest"]),
)
def test_every_job_ends_when_no_jobs_can_share_well(rows, ratio: float, plan: str):
    result = _run(rows, constant_rate(ratio), plan)
    assert all(outcome.end == "succeeded" for outcome in result.outcomes)
    for outcome in result.outcomes:
        if outcome.job.has_shares:  # alone on its card, so at full speed
            assert (outcome.ended_us or 0) - (outcome.started_us or 0) == outcome.run_us


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40), st.booleans()), min_size=1, max_size=14),
    st.dictionaries(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), st.sampled_from([0.0, 0.3, 0.6, 0.9])),
)
def test_every_job_ends_with_any_interference_table(rows, table):
    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return min((table.get((own.app, other.app), 1.0) for other in others), default=1.0)

    result = _run(rows, rate, "easy")
    assert all(outcome.end == "succeeded" for outcome in result.outcomes)


def _run(rows: list[tuple[int, int, bool]], rate: Rate, plan: str) -> SimulationResult:
    jobs = []
    for index, (at_s, run_s, whole) in enumerate(rows):
        request = Request(gpus=1) if whole else THIRD
        name = f"{'abc'[index % 3]}{index}"
        jobs.append(TraceJob(job(name, at_s, request), run_s * US_PER_S))
    return simulate(
        Scenario(grid("1x2"), jobs, make_policies("fifo", plan, "interference:goal=work"), exact, rate=rate)
    )
